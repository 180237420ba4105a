//! Reading a request's inputs and writing a response's outputs.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use crate::abi::{Api, Fault, INTERNAL, Input, MEMORY_GPU, Output, Request, Response};
use crate::cuda;

/// A stretch of memory somewhere.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Where it begins.
    pub base: *mut c_void,
    /// CPU, pinned CPU or GPU.
    pub memory: i32,
    /// Which GPU.
    pub device: i64,
}

/// Datatype and shape of a tensor.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// The server's number for the datatype.
    pub datatype: i32,
    /// Dimensions, batch included.
    pub shape: *const i64,
    /// Number of dimensions.
    pub dims: u32,
}

/// An input tensor of a request that has not been released.
pub struct View {
    api: &'static Api,
    input: *mut Input,
    /// Datatype and shape; the shape belongs to the request.
    pub form: Form,
    /// Total size.
    pub bytes: u64,
    /// Number of buffers it is spread over.
    buffers: u32,
}

impl View {
    /// Opens the input of that name.
    ///
    /// # Errors
    /// The server's: most of all, that the request has no such input.
    #[inline]
    pub fn open(api: &'static Api, request: *mut Request, name: &CStr) -> Result<View, Fault> {
        let mut view =
            View { api, input: null_mut(), form: Form { datatype: 0, shape: null(), dims: 0 }, bytes: 0, buffers: 0 };
        // SAFETY: the request is held by this backend; the server writes through the pointers it is given.
        unsafe {
            api.check((api.request_input)(request, name.as_ptr(), &raw mut view.input))?;
            api.check((api.input_properties)(
                view.input,
                null_mut(),
                &raw mut view.form.datatype,
                &raw mut view.form.shape,
                &raw mut view.form.dims,
                &raw mut view.bytes,
                &raw mut view.buffers,
            ))?;
        }
        Ok(view)
    }

    /// Its dimensions.
    pub fn shape(&self) -> &[i64] {
        // SAFETY: the server's array of that length, alive as long as the request.
        if self.form.dims == 0 {
            &[]
        } else {
            unsafe { std::slice::from_raw_parts(self.form.shape, self.form.dims as usize) }
        }
    }

    /// The buffer of that index and its size.
    #[inline]
    fn buffer(&self, index: u32) -> Result<(Place, usize), Fault> {
        let (mut base, mut bytes, mut memory, mut device) = (null(), 0, 0, 0);
        // SAFETY: as in `open`.
        self.api.check(unsafe {
            (self.api.input_buffer)(self.input, index, &raw mut base, &raw mut bytes, &raw mut memory, &raw mut device)
        })?;
        Ok((Place { base: base.cast_mut(), memory, device }, bytes as usize))
    }

    /// Repeats the input as an output of the same form.
    ///
    /// # Errors
    /// The server's, when it yields no buffer; the CUDA driver's.
    #[inline]
    pub fn repeat_as(&self, response: *mut Response, name: &CStr) -> Result<(), Fault> {
        let first = if self.buffers == 0 { None } else { Some(self.buffer(0)?) };
        let preferred = first.map_or(Memory::HOST, |(place, _)| Memory { kind: place.memory, device: place.device });
        let target = output(self.api, response, name, self.form, self.bytes, preferred)?;
        let mut offset = 0;
        for index in 0..self.buffers {
            let (source, bytes) = match first {
                Some(buffer) if index == 0 => buffer,
                _ => self.buffer(index)?,
            };
            let part = Place { base: target.base.wrapping_byte_add(offset), ..target };
            // SAFETY: the server sized the output for the sum of all buffers; input and output are different memory.
            unsafe { copy(part, source, bytes)? };
            offset += bytes;
        }
        Ok(())
    }

    /// Adds an output of the input's form, and writes nothing into it.
    ///
    /// # Errors
    /// The server's, when it yields no buffer.
    pub fn reserve_as(&self, response: *mut Response, name: &CStr) -> Result<(), Fault> {
        output(self.api, response, name, self.form, self.bytes, Memory::HOST).map(drop)
    }

    /// All bytes, gathered into memory of our own.
    ///
    /// # Errors
    /// The server's and the CUDA driver's.
    pub fn gather(&self) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0u8; self.bytes as usize];
        let mut offset = 0;
        for index in 0..self.buffers {
            let (source, size) = self.buffer(index)?;
            let Some(part) = bytes.get_mut(offset..offset + size) else {
                return Err(Fault::new(INTERNAL, "an input's buffers are larger than its size"));
            };
            let target = Place { base: part.as_mut_ptr().cast(), memory: 0, device: 0 };
            // SAFETY: `part` has exactly that size.
            unsafe { copy(target, source, size)? };
            offset += size;
        }
        Ok(bytes)
    }

    /// Whether any of it lies in GPU memory.
    pub fn on_gpu(&self) -> bool {
        (0..self.buffers).any(|index| self.buffer(index).is_ok_and(|(place, _)| place.memory == MEMORY_GPU))
    }
}

/// Adds an output with the given content to a response.
///
/// # Errors
/// The server's, when it yields no buffer; the CUDA driver's.
pub fn write(api: &Api, response: *mut Response, name: &CStr, form: Form, content: &[u8]) -> Result<(), Fault> {
    let target = output(api, response, name, form, content.len() as u64, Memory::HOST)?;
    let source = Place { base: content.as_ptr().cast_mut().cast(), memory: 0, device: 0 };
    // SAFETY: the server's buffer has the size that was asked for.
    unsafe { copy(target, source, content.len()) }
}

/// The memory that an output is asked for in.
#[derive(Clone, Copy)]
struct Memory {
    /// `TRITONSERVER_MemoryType`.
    kind: i32,
    device: i64,
}

impl Memory {
    const HOST: Self = Self { kind: 0, device: 0 };
}

#[inline]
fn output(
    api: &Api,
    response: *mut Response,
    name: &CStr,
    form: Form,
    bytes: u64,
    preferred: Memory,
) -> Result<Place, Fault> {
    let Memory { kind: mut memory, mut device } = preferred;
    let (mut output, mut base): (*mut Output, _) = (null_mut(), null_mut());
    // SAFETY: the response is unsent; the server copies name and shape and writes through the other pointers.
    unsafe {
        api.check((api.response_output)(
            response,
            &raw mut output,
            name.as_ptr(),
            form.datatype,
            form.shape,
            form.dims,
        ))?;
        api.check((api.output_buffer)(output, &raw mut base, bytes, &raw mut memory, &raw mut device))?;
    }
    if base.is_null() && bytes > 0 {
        return Err(Fault::new(INTERNAL, format!("no buffer of {bytes} bytes for output {}", name.to_string_lossy())));
    }
    Ok(Place { base, memory, device })
}

/// # Safety
/// Both ranges are valid for `bytes`, and do not overlap.
#[inline]
unsafe fn copy(target: Place, source: Place, bytes: usize) -> Result<(), Fault> {
    if bytes == 0 {
        return Ok(());
    }
    if target.memory != MEMORY_GPU && source.memory != MEMORY_GPU {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(source.base.cast::<u8>(), target.base.cast::<u8>(), bytes) };
        return Ok(());
    }
    let device = if target.memory == MEMORY_GPU { target.device } else { source.device };
    // SAFETY: the caller's promise.
    unsafe { cuda::copy(target.base, source.base, bytes, device) }
}
