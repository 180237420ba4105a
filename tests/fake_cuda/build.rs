//! Sets the library's soname to the driver's, so that a preloaded copy is used in the driver's place.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
}
