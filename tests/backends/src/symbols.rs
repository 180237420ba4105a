//! Finds the server's functions in the running process.
//!
//! A host may have opened its server library privately (`RTLD_LOCAL`) and under a name of its own, so this backend links to
//! nothing: it asks the global scope first and then every loaded library whose path names the server.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;

const LIBRARY: &[u8] = b"libtritonserver";

/// The address of a function of the server, or the name that was looked for in vain.
pub fn find(name: &CStr) -> Result<NonNull<c_void>, String> {
    // SAFETY: `name` is a C string; RTLD_DEFAULT needs no handle.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    NonNull::new(global)
        .or_else(|| loaded_servers().iter().find_map(|path| find_in(path, name)))
        .ok_or_else(|| format!("the host's Triton library has no {}", name.to_string_lossy()))
}

fn find_in(path: &CStr, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: both are C strings; RTLD_NOLOAD only hands out a handle to what is loaded already.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is open. Closing it afterwards only drops the extra reference: the host holds its own.
    unsafe {
        let address = libc::dlsym(handle, name.as_ptr());
        libc::dlclose(handle);
        NonNull::new(address)
    }
}

/// Paths of loaded libraries that look like the server. Collected first, because the loader's lock is held while iterating.
fn loaded_servers() -> Vec<CString> {
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: the callback gets exactly this pointer, and only during the call.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut paths).cast()) };
    paths
}

unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, paths: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid record; its name is a C string or null.
    let name: *const c_char = unsafe { (*info).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: `paths` is the vector of `loaded_servers`, borrowed by nobody else.
    let (name, paths) = unsafe { (CStr::from_ptr(name), &mut *paths.cast::<Vec<CString>>()) };
    if name.to_bytes().windows(LIBRARY.len()).any(|part| part == LIBRARY) {
        paths.push(name.to_owned());
    }
    0
}

/// Opens a library by name for good; null if it is not there.
pub fn open(name: &CStr) -> *mut c_void {
    // SAFETY: `name` is a C string.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
}

/// A symbol of a library that [`open`] returned.
pub fn find_within(handle: *mut c_void, name: &CStr) -> Option<NonNull<c_void>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is open and never closed.
    NonNull::new(unsafe { libc::dlsym(handle, name.as_ptr()) })
}
