//! Loads a model with a configuration other than its file's, and back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;

use crate::c_api::ffi::server::{LOADING, Server};
use crate::c_api::ffi::status::c_string;
use crate::c_api::ffi::sys;
use crate::c_api::threads;
use crate::error::{Error, Result};

/// How long threads of the server may take to become idle before their instances are removed.
const REST_LIMIT: Duration = Duration::from_millis(300);

impl Server {
    /// Loads a model with this complete configuration, or with that of its file if there is none. A loaded model keeps
    /// serving until the other is ready, and if that fails. If the two differ only in their instances, only these
    /// change.
    ///
    /// # Errors
    /// Triton's reason, or that the library is too old for it.
    pub fn load_as(&self, model: &str, configuration: Option<&Value>) -> Result<()> {
        // Instances that are still returning from a request must not be removed: see `ending`.
        threads::await_rest(REST_LIMIT);
        let api = &self.library.api;
        let able = [
            api.TRITONSERVER_ServerLoadModelWithParameters.is_ok(),
            api.TRITONSERVER_ParameterNew.is_ok(),
            api.TRITONSERVER_ParameterDelete.is_ok(),
        ];
        let Some(configuration) = configuration else { return self.load(model) };
        if able.contains(&false) {
            return Err(Error::server(format!(
                "model '{model}' cannot be loaded with another configuration: this Triton has no ServerLoadModelWithParameters; releases \
                 from 22.03 on have it"
            )));
        }
        let (name, key, text) = (c_string(model), c_string("config"), c_string(&configuration.to_string()));
        // SAFETY: both texts are C strings, which the call copies.
        let parameter =
            unsafe { api.TRITONSERVER_ParameterNew(key.as_ptr(), sys::PARAMETER_STRING, text.as_ptr().cast()) };
        if parameter.is_null() {
            return Err(Error::server(format!("model '{model}': Triton takes no configuration from this program")));
        }
        let mut parameters = [parameter.cast_const()];
        LOADING.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the server is live; the list holds one parameter, which is alive until it is deleted below.
        let status = unsafe {
            api.TRITONSERVER_ServerLoadModelWithParameters(self.pointer, name.as_ptr(), parameters.as_mut_ptr(), 1)
        };
        LOADING.fetch_sub(1, Ordering::Relaxed);
        let loaded = self.library.check(status);
        // SAFETY: this call owns the parameter, and the load is over.
        unsafe { api.TRITONSERVER_ParameterDelete(parameter) };
        loaded.map_err(|status| Error::server(status.message.trim_end().to_owned()))
    }
}
