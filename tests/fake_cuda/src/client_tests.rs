//! Uses the library as a client would. What needs two processes is checked by `tests/gpu.rs`, which the program's tests
//! run on this library.

use std::ffi::c_void;
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

use crate::driver::*;
use crate::ipc::Handle;
use crate::runtime::*;
use crate::runtime_memory::*;
use crate::status::{
    HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE,
    OUT_OF_MEMORY,
};

/// A started driver with device 0 current on this thread, and the log, which makes violations more than an abort.
fn enter() -> &'static PathBuf {
    static LOG: OnceLock<PathBuf> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        // A file without a name, so that none is left.
        // SAFETY: the name ends with a zero byte.
        let descriptor = unsafe { libc::memfd_create(c"log".as_ptr(), 0) };
        let path = PathBuf::from(format!("/proc/self/fd/{descriptor}"));
        // SAFETY: nothing has read the environment yet: every test begins here.
        unsafe { std::env::set_var("FAKE_CUDA_LOG", &path) };
        path
    });
    let mut context = ptr::null_mut();
    assert_eq!((cuInit(0), cuDevicePrimaryCtxRetain(&raw mut context, 0), cuCtxSetCurrent(context)), (0, 0, 0));
    log
}

/// Whether the log tells of a violation of this rule with these words.
fn is_reported(rule: &str, words: &str) -> bool {
    let text = std::fs::read_to_string(enter()).unwrap_or_default();
    text.lines().any(|line| line.contains(&format!("\"rule\":\"{rule}\"")) && line.contains(words))
}

fn allocate(size: usize) -> u64 {
    let mut address = 0;
    assert_eq!(cuMemAlloc_v2(&raw mut address, size), 0);
    address
}

fn download(address: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    assert_eq!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, count), 0);
    bytes
}

#[test]
fn bytes_come_back_from_both_interfaces_and_fresh_memory_is_not_zero() {
    enter();
    let address = allocate(1000);
    assert_eq!(download(address, 1000), [0xA5; 1000]);
    let bytes: Vec<u8> = (0..100).collect();
    assert_eq!(cuMemcpyHtoD_v2(address + 50, bytes.as_ptr().cast(), 100), 0);
    let mut other = 0;
    assert_eq!(cudaMalloc(&raw mut other, 100), 0);
    assert_eq!(cudaMemcpy(other, address as usize + 50, 100, 3), 0);
    assert_eq!(download(other as u64, 100), bytes);
    assert_eq!((cudaFree(other), cuMemFree_v2(address)), (0, 0));
}

#[test]
fn the_processor_cannot_touch_device_memory() {
    enter();
    let address = allocate(5000);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let access = |wanted: u64| {
        let mut lines = maps.lines().filter_map(|line| {
            let (range, tail) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let ends = [from, to].map(|end| u64::from_str_radix(end, 16).unwrap());
            (ends[0] <= wanted && wanted < ends[1]).then(|| tail[..3].to_owned())
        });
        lines.next()
    };
    assert_eq!((access(address), access(address + 4999)), (Some("---".to_owned()), Some("---".to_owned())));
    assert_eq!(cuMemFree_v2(address), 0);
}

#[test]
fn what_the_host_does_not_wait_for_is_not_seen_by_a_stream_that_does_not_wait_either() {
    enter();
    let (address, mut contents) = (allocate(8), [0_u8; 8]);
    let (mut stream, mut ordered) = (ptr::null_mut(), ptr::null_mut());
    assert_eq!((cudaStreamCreateWithPriority(&raw mut stream, 1, 0), cudaStreamCreate(&raw mut ordered)), (0, 0));
    let target = contents.as_mut_ptr() as usize;
    assert_eq!(cuMemsetD8_v2(address, 7, 8), 0);
    assert_eq!(cudaMemcpyAsync(target, address as usize, 8, 2, stream), 0);
    assert_eq!(contents, [0xA5; 8]);
    assert_eq!(cudaMemcpyAsync(target, address as usize, 8, 2, ordered), 0);
    assert_eq!(contents, [7; 8]);
    assert_eq!((cudaStreamDestroy(stream), cudaStreamDestroy(ordered), cuMemFree_v2(address)), (0, 0, 0));
    assert_eq!(cudaStreamSynchronize(stream), 400);
    assert!(is_reported("unknown_stream", ""));
}

#[test]
fn ranges_sides_and_freed_memory_are_checked() {
    enter();
    let address = allocate(100);
    let mut bytes = [0_u8; 101];
    let target: *mut c_void = bytes.as_mut_ptr().cast();
    assert_eq!(cuMemcpyDtoH_v2(target, address, 101), INVALID_VALUE.0);
    assert!(is_reported("out_of_range", "101 bytes at offset 0 of 100"));
    assert_eq!(cuMemcpyDtoH_v2(target, target as u64, 1), INVALID_VALUE.0);
    assert!(is_reported("wrong_side", "1 bytes"));
    assert_eq!(cuMemFree_v2(address + 1), INVALID_VALUE.0);
    assert_eq!((cuMemFree_v2(address), cuMemFree_v2(address)), (0, INVALID_VALUE.0));
    assert!(is_reported("unknown_memory", &format!("{address:#x}")));
    assert_eq!(cuMemcpyDtoH_v2(target, address + 3, 7), INVALID_VALUE.0);
    assert!(is_reported("out_of_range", "7 bytes at offset 3 of 100: the memory was freed"));
}

#[test]
fn a_device_has_so_much_memory_and_tells() {
    enter();
    let mut context = ptr::null_mut();
    assert_eq!((cuDevicePrimaryCtxRetain(&raw mut context, 1), cuCtxPushCurrent_v2(context)), (0, 0));
    let (mut free, mut total, mut address) = (0, 0, 0);
    assert_eq!(cuMemAlloc_v2(&raw mut address, 1 << 44), OUT_OF_MEMORY.0);
    let block = allocate(1000);
    assert_eq!(cuMemGetInfo_v2(&raw mut free, &raw mut total), 0);
    assert_eq!((total, total - free), (1 << 30, 1024));
    let (mut base, mut size) = (0, 0);
    assert_eq!(cuMemGetAddressRange_v2(&raw mut base, &raw mut size, block + 999), 0);
    assert_eq!((base, size), (block, 1000));
    assert_eq!((cuMemFree_v2(block), cuCtxPopCurrent_v2(ptr::null_mut())), (0, 0));
    assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, 2), INVALID_DEVICE.0);
}

#[test]
fn handles_are_of_whole_allocations_and_not_for_their_own_process() {
    enter();
    let (address, mut handle, mut opened) = (allocate(64), Handle([0; 64]), 0);
    assert_eq!(cuIpcGetMemHandle(&raw mut handle, address + 8), INVALID_VALUE.0);
    assert_eq!(cuIpcOpenMemHandle_v2(&raw mut opened, handle, 1), INVALID_VALUE.0);
    assert_eq!(cuIpcGetMemHandle(&raw mut handle, address), 0);
    assert_eq!(cuIpcOpenMemHandle_v2(&raw mut opened, handle, 1), INVALID_CONTEXT.0);
    assert_eq!(cuIpcCloseMemHandle(address), INVALID_VALUE.0);
    assert!(is_reported("unknown_memory", "no other process' memory"));
    assert_eq!(cuMemFree_v2(address), 0);
}

#[test]
fn host_memory_is_registered_once_and_while_it_is_there() {
    enter();
    let mut page = 0_usize;
    assert_eq!(cudaHostAlloc(&raw mut page, 4096, 0), 0);
    let address: *mut c_void = ptr::with_exposed_provenance_mut(page);
    assert_eq!(cuMemHostRegister_v2(address, 4096, 1), 0);
    assert_eq!(cuMemHostRegister_v2(address, 1, 1), HOST_MEMORY_ALREADY_REGISTERED.0);
    assert_eq!((cudaFreeHost(page), cuMemHostUnregister(address)), (0, 0));
    assert!(is_reported("unmapped_while_registered", "4096 bytes"));
    assert_eq!(cuMemHostUnregister(address), HOST_MEMORY_NOT_REGISTERED.0);
}

#[test]
fn a_thread_without_a_context_is_told() {
    enter();
    let outcome = std::thread::spawn(|| cuMemFree_v2(1)).join().unwrap();
    assert_eq!(outcome, INVALID_CONTEXT.0);
    assert!(is_reported("no_context", ""));
}
