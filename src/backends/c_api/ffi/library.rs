//! Opens `libtritonserver.so`: everything that can be wrong with it is found and reported here, once.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::os::unix::{Library as UnixLibrary, RTLD_LOCAL, RTLD_NOW};

use crate::c_api::ffi::sys;
use crate::error::{Error, Result};
use crate::plan::{API_MAJOR, INSTALL_DIRECTORY, INSTALL_VARIABLE};

/// The loaded library: its functions, and its version. It stays in memory until the process ends, because threads that
/// the server has detached run to their end after the server is deleted, and nobody can wait for them.
pub struct Library {
    pub(super) api: sys::TritonApi,
}

/// Lists every required function that the library lacks.
macro_rules! missing {
    ($api:expr, $($function:ident)*) => {{
        let mut names: Vec<&'static str> = Vec::new();
        $(if $api.$function.is_err() { names.push(stringify!($function)); })*
        names
    }};
}

impl Library {
    /// Opens the library of the install directory `directory` and checks that it has what a run needs.
    ///
    /// # Errors
    /// The directory or the library does not exist, is not a library, lacks functions, or has another API.
    pub fn open(directory: &Path) -> Result<Arc<Self>> {
        let path = find(directory)?;
        let flags = RTLD_NOW | RTLD_LOCAL | libc::RTLD_NODELETE;
        // SAFETY: loading runs the library's initialisers; that is what the user asked for.
        let library = unsafe { UnixLibrary::open(Some(&path), flags) }.map_err(|error| refused(&path, &error))?;
        // SAFETY: every symbol is looked up by its name and typed by `wrapper.h`.
        let api = unsafe { sys::TritonApi::from_library(library) }.map_err(|error| refused(&path, &error))?;
        let library = Self { api };
        let version = library.api_version();
        let missing = library.missing_functions();
        if !missing.is_empty() {
            let version = version
                .map_or_else(|| "no API version".to_owned(), |(major, minor)| format!("API version {major}.{minor}"));
            return Err(Error::server(format!(
                "--triton-server-directory: {} ({version}) lacks {}; a Triton release from 21.10 on has them",
                path.display(),
                missing.join(", ")
            )));
        }
        match version {
            Some((API_MAJOR, _)) => Ok(Arc::new(library)),
            other => Err(Error::server(format!(
                "--triton-server-directory: {} speaks C API version {}, and this program speaks {API_MAJOR}; use a Triton 2.x release",
                path.display(),
                other.map_or_else(|| "unknown".to_owned(), |(major, minor)| format!("{major}.{minor}"))
            ))),
        }
    }

    fn api_version(&self) -> Option<(u32, u32)> {
        self.api.TRITONSERVER_ApiVersion.as_ref().ok()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid for the call.
        let error = unsafe { self.api.TRITONSERVER_ApiVersion(&raw mut major, &raw mut minor) };
        error.is_null().then_some((major, minor))
    }

    fn missing_functions(&self) -> Vec<&'static str> {
        missing!(self.api,
            TRITONSERVER_ApiVersion TRITONSERVER_ErrorNew TRITONSERVER_ErrorDelete TRITONSERVER_ErrorCodeString
            TRITONSERVER_ErrorMessage TRITONSERVER_MessageSerializeToJson TRITONSERVER_MessageDelete
            TRITONSERVER_ServerOptionsNew TRITONSERVER_ServerOptionsDelete
            TRITONSERVER_ServerOptionsSetModelRepositoryPath TRITONSERVER_ServerOptionsSetModelControlMode
            TRITONSERVER_ServerOptionsSetStrictModelConfig TRITONSERVER_ServerOptionsSetExitTimeout
            TRITONSERVER_ServerOptionsSetLogInfo TRITONSERVER_ServerOptionsSetLogWarn
            TRITONSERVER_ServerOptionsSetLogError TRITONSERVER_ServerOptionsSetLogVerbose
            TRITONSERVER_ServerOptionsSetBackendDirectory
            TRITONSERVER_ServerNew TRITONSERVER_ServerDelete TRITONSERVER_ServerStop
            TRITONSERVER_ServerModelIsReady TRITONSERVER_ServerMetadata TRITONSERVER_ServerModelMetadata
            TRITONSERVER_ServerModelConfig TRITONSERVER_ServerModelStatistics TRITONSERVER_ServerModelIndex
            TRITONSERVER_ServerLoadModel TRITONSERVER_ServerUnloadModel TRITONSERVER_ServerInferAsync
            TRITONSERVER_InferenceRequestNew TRITONSERVER_InferenceRequestDelete TRITONSERVER_InferenceRequestSetFlags
            TRITONSERVER_InferenceRequestSetCorrelationId TRITONSERVER_InferenceRequestSetTimeoutMicroseconds
            TRITONSERVER_InferenceRequestAddInput TRITONSERVER_InferenceRequestRemoveAllInputs
            TRITONSERVER_InferenceRequestAppendInputData TRITONSERVER_InferenceRequestSetReleaseCallback
            TRITONSERVER_InferenceRequestSetResponseCallback
            TRITONSERVER_ResponseAllocatorNew TRITONSERVER_ResponseAllocatorDelete
            TRITONSERVER_InferenceResponseError TRITONSERVER_InferenceResponseDelete
            TRITONSERVER_InferenceResponseOutputCount TRITONSERVER_InferenceResponseOutput
        )
    }
}

/// The library's path in an install directory.
fn find(directory: &Path) -> Result<PathBuf> {
    if !directory.is_dir() {
        return Err(Error::server(format!(
            "--triton-server-directory: '{}' is not a directory; name the one that holds lib/libtritonserver.so{}",
            directory.display(),
            elsewhere(directory)
        )));
    }
    let candidates = ["lib/libtritonserver.so", "lib64/libtritonserver.so"].map(|name| directory.join(name));
    candidates.iter().find(|path| path.exists()).cloned().ok_or_else(|| {
        Error::server(format!(
            "--triton-server-directory: '{}' holds no lib/libtritonserver.so; name the server's install directory{}",
            directory.display(),
            elsewhere(directory)
        ))
    })
}

/// Who has named that place, and where else Triton would be looked for.
fn elsewhere(directory: &Path) -> String {
    if directory == Path::new(INSTALL_DIRECTORY) {
        return format!(
            ". It is looked for where --triton-server-directory says, then where {INSTALL_VARIABLE} says, then in \
             {INSTALL_DIRECTORY}, then where scripts/quickstart has unpacked one in the checkout of this program"
        );
    }
    let is_named = std::env::var_os(INSTALL_VARIABLE).is_some_and(|name| Path::new(&name) == directory);
    if is_named { format!(" ({INSTALL_VARIABLE} has this one)") } else { String::new() }
}

fn refused(path: &Path, error: &libloading::Error) -> Error {
    let detail = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    Error::server(format!("--triton-server-directory: cannot load {}: {detail}", path.display()))
}
