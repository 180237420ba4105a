//! Checks of GPU and pinned memory.
//!
//! The IPC check needs a second process: it runs its own executable again with the same arguments, so it works from a
//! program and from a test alike.

use std::process::Command;
use std::time::Instant;

use cudarc::driver::result;
use cudarc::driver::sys::CUcontext;
use triton_bench::shm::{ImportedMemory, Placement, Region};

/// The environment variable that makes the process the importing one: device, handle, length.
const IMPORT: &str = "GPU_CHECKS_IMPORT";

const MEBIBYTE: usize = 1 << 20;

type Outcome = Result<String, String>;

/// A check of one device.
type Check = fn(u32) -> Outcome;

/// Runs all checks on so many devices and prints a table. Whether all passed. In the importing process: does its part, and
/// nothing else.
pub fn run(devices: u32) -> bool {
    if let Ok(words) = std::env::var(IMPORT) {
        let outcome = import(&words.split(' ').collect::<Vec<_>>());
        return outcome.inspect_err(|message| eprintln!("{message}")).is_ok();
    }
    let mut passed = true;
    println!("{:<44} {:<8} detail", "memory", "result");
    for device in 0..devices {
        let checks: [(&str, Check); 7] = [
            ("round trip of 64 MiB", round_trip),
            ("empty and odd sizes", odd_sizes),
            ("pinned memory", pinned),
            ("the thread's own context", own_context),
            ("IPC export to another process", export),
            ("IPC import into the exporting process", import_own),
            ("running out of device memory", exhaustion),
        ];
        for (name, check) in checks {
            passed &= report(&format!("gpu:{device} {name}"), check(device));
        }
    }
    passed & report("wrong device number", wrong_device(devices))
}

fn report(name: &str, outcome: Outcome) -> bool {
    let (result, detail) = match &outcome {
        Ok(detail) => ("passed", detail),
        Err(detail) => ("FAILED", detail),
    };
    println!("{name:<44} {result:<8} {detail}");
    outcome.is_ok()
}

/// Bytes that repeat at no power of two.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

fn ensure(condition: bool, rule: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(rule.to_owned()) }
}

fn text(error: triton_bench::error::Error) -> String {
    error.to_string()
}

fn round_trip(device: u32) -> Outcome {
    let bytes = pattern(64 * MEBIBYTE);
    let start = Instant::now();
    let region = Region::filled(Placement::Cuda(device), &bytes).map_err(text)?;
    let written = start.elapsed();
    let mut back = vec![0; bytes.len()];
    let start = Instant::now();
    region.read(0, &mut back).map_err(text)?;
    let read = start.elapsed();
    ensure(back == bytes, "other bytes came back")?;
    let mut part = [0; 1000];
    region.read(12_345, &mut part).map_err(text)?;
    ensure(part == bytes[12_345..13_345], "other bytes came back from the middle")?;
    let rate = |time: std::time::Duration| bytes.len() as f64 / 1e9 / time.as_secs_f64();
    Ok(format!("{:.1} GB/s there (with allocation), {:.1} GB/s back", rate(written), rate(read)))
}

fn odd_sizes(device: u32) -> Outcome {
    for len in [0, 1, 63, 4097] {
        let region = Region::filled(Placement::Cuda(device), &pattern(len)).map_err(text)?;
        ensure(region.len() == len, "the length is another")?;
        ensure(region.bytes(0, len).map_err(text)?.as_ref() == pattern(len), "other bytes came back")?;
        ensure(region.read(len, &mut [0]).is_err(), "reading past the end was allowed")?;
    }
    let zero = Region::zeroed(Placement::Cuda(device), MEBIBYTE).map_err(text)?;
    ensure(zero.bytes(0, MEBIBYTE).map_err(text)?.iter().all(|&byte| byte == 0), "fresh memory is not zero")?;
    Ok("0, 1, 63, 4097 bytes".to_owned())
}

fn pinned(_: u32) -> Outcome {
    for len in [0, 1, 5 * MEBIBYTE + 3] {
        let region = Region::filled(Placement::Pinned, &pattern(len)).map_err(text)?;
        ensure(region.bytes(0, len).map_err(text)?.as_ref() == pattern(len), "other bytes came back")?;
    }
    Ok("registered, written, read, released".to_owned())
}

/// A thread that calls us, such as a server's, has afterwards the context that it had before: none here, and that of the first
/// device.
fn own_context(device: u32) -> Outcome {
    let unchanged = move || {
        for context in [None, Some(primary_context()?)] {
            // SAFETY: the context is retained, or is none.
            unsafe { result::ctx::set_current(context.unwrap_or(std::ptr::null_mut())) }.map_err(|e| e.to_string())?;
            let mut region = Region::zeroed(Placement::Cuda(device), 64).map_err(text)?;
            region.write(0, &pattern(64)).map_err(text)?;
            region.read(0, &mut [0; 64]).map_err(text)?;
            region.ipc_handle().map_err(text)?;
            drop(region);
            let current = result::ctx::get_current().map_err(|e| e.to_string())?;
            ensure(current == context, "another context is current afterwards")?;
            drop(Region::zeroed(Placement::Pinned, 64).map_err(text)?);
            let current = result::ctx::get_current().map_err(|e| e.to_string())?;
            ensure(current == context, "another context is current after page-locking")?;
        }
        Ok("unchanged".to_owned())
    };
    std::thread::spawn(unchanged).join().unwrap_or_else(|_| Err("the thread panicked".to_owned()))
}

/// That of the first device.
fn primary_context() -> Result<CUcontext, String> {
    let device = result::device::get(0).map_err(|e| e.to_string())?;
    // SAFETY: the handle came from the driver.
    unsafe { result::primary_ctx::retain(device) }.map_err(|e| e.to_string())
}

fn export(device: u32) -> Outcome {
    let bytes = pattern(MEBIBYTE + 17);
    let region = Region::filled(Placement::Cuda(device), &bytes).map_err(text)?;
    let handle = region.ipc_handle().map_err(text)?.ok_or("there is no handle")?;
    let handle: String = handle.iter().map(|byte| format!("{byte:02x}")).collect();
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(IMPORT, format!("{device} {handle} {}", bytes.len()))
        .output()
        .map_err(|e| e.to_string())?;
    match child.status.success() {
        true => Ok(format!("{} bytes read there", bytes.len())),
        false => Err(String::from_utf8_lossy(&child.stderr).trim().to_owned()),
    }
}

/// The second process: opens the memory, compares what is in it, and finds that it is not longer than it is.
fn import(arguments: &[&str]) -> Result<(), String> {
    let [device, handle, len] = arguments else { return Err("import takes device, handle, length".to_owned()) };
    let device = device.parse().map_err(|_| "the device is not a number")?;
    let len: usize = len.parse().map_err(|_| "the length is not a number")?;
    let (digits, _) = handle.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        digits.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
    let handle: [u8; 64] = bytes.and_then(|bytes| bytes.try_into().ok()).ok_or("the handle is no 64 bytes")?;
    let memory = ImportedMemory::open(device, handle, len).map_err(text)?;
    let mut back = vec![0; len];
    memory.read(0, &mut back).map_err(text)?;
    ensure(back == pattern(len), "the other process sees other bytes")?;
    ensure(memory.read(len, &mut [0]).is_err(), "reading past the end was allowed")?;
    drop(memory);
    ensure(ImportedMemory::open(device, handle, 1 << 40).is_err(), "a length past the allocation was believed")
}

/// The driver refuses this; what matters is that it is an error of ours and nothing breaks.
fn import_own(device: u32) -> Outcome {
    let region = Region::zeroed(Placement::Cuda(device), MEBIBYTE).map_err(text)?;
    let handle = region.ipc_handle().map_err(text)?.ok_or("there is no handle")?;
    match ImportedMemory::open(device, handle, MEBIBYTE) {
        Ok(_) => Ok("accepted by this driver".to_owned()),
        Err(e) => Ok(format!("refused: {e}")),
    }
}

fn exhaustion(device: u32) -> Outcome {
    let message = match Region::zeroed(Placement::Cuda(device), 1 << 44) {
        Ok(_) => return Err("16 TiB were allocated".to_owned()),
        Err(e) => e.to_string(),
    };
    ensure(message.contains(&format!("allocate 17592186044416 bytes on CUDA device {device}")), &message)?;
    round_trip(device).map_err(|e| format!("nothing works after it: {e}"))?;
    Ok(message)
}

fn wrong_device(devices: u32) -> Outcome {
    match Region::zeroed(Placement::Cuda(devices), 64) {
        Ok(_) => Err("memory was allocated on a device that does not exist".to_owned()),
        Err(e) => {
            let message = e.to_string();
            ensure(message.contains(&format!("CUDA device {devices} does not exist")), &message)?;
            Ok(message)
        }
    }
}
