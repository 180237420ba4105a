//! Generates the C API bindings from `wrapper.h`: a struct of function pointers, filled at run time from the library
//! that `--triton-server-directory` names. Nothing is linked.

use std::env;
use std::path::PathBuf;

const WRAPPER: &str = "../../wrapper.h";

fn main() {
    println!("cargo:rustc-check-cfg=cfg(sanitized)");
    // Sanitizers have a function of their own where threads begin.
    if env::var_os("CARGO_CFG_SANITIZE").is_some_and(|which| !which.is_empty()) {
        println!("cargo:rustc-cfg=sanitized");
    }
    println!("cargo:rerun-if-changed={WRAPPER}");
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("triton_api.rs");
    bindgen::Builder::default()
        .header(WRAPPER)
        .allowlist_function("TRITONSERVER_.*")
        .dynamic_library_name("TritonApi")
        .dynamic_link_require_all(false)
        .wrap_unsafe_ops(true)
        .layout_tests(false)
        .generate()
        .expect("bindgen reads wrapper.h (it needs libclang: Debian's libclang1-14 is enough)")
        .write_to_file(target)
        .expect("the build directory is writable");
}
