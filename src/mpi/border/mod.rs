//! The few functions of an MPI library that are used, looked up by name at run time, and the three binary interfaces of
//! such libraries.
//!
//! Handles are 32-bit integers in MPICH and its relatives, pointers in Open MPI, and integers as wide as pointers in
//! the standard interface of MPI 5.0. The values of the constants are those of `mpi.h` of Open MPI 5.0 and MPICH 5.0,
//! and of the standard (MPI 5.0, chapter 20).

mod pending;

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};

use crate::error::{Error, Result};

pub use pending::{Operations, Pending};

/// Size of the buffer for a library's version text; every library needs less.
const VERSION_BYTES: usize = 8192;
/// Size of a status in words; every library's is smaller.
const STATUS_WORDS: usize = 32;

/// Which binary interface a library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abi {
    /// Open MPI's, of versions 4 and 5.
    OpenMpi,
    /// MPICH's, which Intel MPI and MVAPICH share.
    Mpich,
    /// That of the MPI 5.0 standard.
    Standard,
}

impl Abi {
    /// The interface of a library with this `version` text and this answer to the query for the standard interface.
    pub(super) fn of_library(version: &str, standard: Option<c_int>) -> Option<Self> {
        match version {
            _ if standard.is_some_and(|major| major >= 1) => Some(Self::Standard),
            text if text.starts_with("Open MPI") => Some(Self::OpenMpi),
            text if ["MPICH", "Intel(R) MPI", "MVAPICH"].iter().any(|name| text.contains(name)) => Some(Self::Mpich),
            _ => None,
        }
    }

    /// Only the thread that entered calls MPI (`MPI_THREAD_FUNNELED`).
    fn funneled(self) -> c_int {
        if self == Self::Standard { 1024 } else { 1 }
    }
}

/// A started operation; its buffers belong to it until it is done.
pub(super) trait Operation {
    /// Makes progress, and returns whether the operation is done.
    fn is_done(&mut self) -> Result<bool>;
}

/// An MPI library, with any kind of handles.
pub(super) trait Calls {
    /// Joins the other processes.
    fn enter(&self) -> Result<()>;
    /// This process' number, and the number of processes.
    fn rank_and_size(&self) -> Result<(usize, usize)>;
    /// Begins to give `send` to all and to collect theirs, `send.len()` bytes each, in `receive`.
    ///
    /// # Safety
    /// `receive` has room for all; neither buffer moves or goes away before the operation is done.
    unsafe fn gather_to_all(&self, send: &[u8], receive: &mut [u8]) -> Result<Box<dyn Operation>>;
    /// Starts to send the content of `root`'s `buffer` to all.
    ///
    /// # Safety
    /// The buffer does not move or go away before the operation is done.
    unsafe fn broadcast(&self, buffer: &mut [u8], root: usize) -> Result<Box<dyn Operation>>;
    /// Starts to send to one process.
    ///
    /// # Safety
    /// As for [`Calls::broadcast`].
    unsafe fn send(&self, buffer: &[u8], to: usize) -> Result<Box<dyn Operation>>;
    /// Starts to receive from one process.
    ///
    /// # Safety
    /// As for [`Calls::broadcast`].
    unsafe fn receive(&self, buffer: &mut [u8], from: usize) -> Result<Box<dyn Operation>>;
    /// Ends all processes.
    fn abort(&self, code: u8);
    /// Leaves the others. Waits for them.
    fn leave(&self) -> Result<()>;
}

/// The tag of messages from one process to another.
const TAG: c_int = 7;

type GatherToAll<H> = unsafe extern "C" fn(*const c_void, c_int, H, *mut c_void, c_int, H, H, *mut H) -> c_int;
type Broadcast<H> = unsafe extern "C" fn(*mut c_void, c_int, H, c_int, H, *mut H) -> c_int;
type SendTo<H> = unsafe extern "C" fn(*const c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int;
type ReceiveFrom<H> = unsafe extern "C" fn(*mut c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int;
type Test<H> = unsafe extern "C" fn(*mut H, *mut c_int, *mut c_void) -> c_int;
type Number<H> = unsafe extern "C" fn(H, *mut c_int) -> c_int;

/// The functions, for handles of type `H`. The library is never closed: it leaves threads and exit handlers behind.
struct Functions<H> {
    abi: Abi,
    world: H,
    byte: H,
    errors_return: H,
    init_thread: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int,
    set_error_handler: unsafe extern "C" fn(H, H) -> c_int,
    comm_rank: Number<H>,
    comm_size: Number<H>,
    gather_to_all: GatherToAll<H>,
    broadcast: Broadcast<H>,
    send: SendTo<H>,
    receive: ReceiveFrom<H>,
    test: Test<H>,
    abort: unsafe extern "C" fn(H, c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
}

/// An opened library.
pub(super) struct Opened {
    pub(super) calls: Box<dyn Calls>,
    /// Its version text, in one line.
    pub(super) version: String,
}

/// Opens the library `name`: a path, or a name that the loader searches for. `None` if there is none of that name.
///
/// # Errors
/// It is not an MPI library with a known interface, or lacks functions.
pub(super) fn open(name: &Path) -> Result<Option<Opened>> {
    let shown = name.display();
    // SAFETY: loading runs the library's initialisers; a process asked to use MPI wants that. GLOBAL, because Open MPI
    // looks for its own symbols in plugins.
    let library = match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL | libc::RTLD_NODELETE) } {
        Ok(library) => library,
        Err(error) if is_absent(&error, name) => return Ok(None),
        Err(error) => return Err(Error::machine(format!("cannot load {shown}: {error}"))),
    };
    let version = version(&library, name)?;
    let functions = Abi::of_library(&version, standard(&library)).map(|abi| (abi, &library));
    let line = version.lines().next().unwrap_or_default().trim().to_owned();
    let calls: Box<dyn Calls> = match functions {
        Some((abi @ Abi::OpenMpi, library)) => {
            Box::new(Functions::find(library, name, abi, addresses(library, name)?)?)
        }
        Some((abi @ Abi::Mpich, library)) => {
            Box::new(Functions::<c_int>::find(library, name, abi, [0x4400_0000, 0x4c00_010d, 0x5400_0001])?)
        }
        Some((abi @ Abi::Standard, library)) => {
            Box::new(Functions::<usize>::find(library, name, abi, [0x101, 0x247, 0x143])?)
        }
        None => {
            let rule = "is not one of Open MPI, MPICH, Intel MPI, MVAPICH or a library of the MPI 5.0 interface";
            return Err(Error::machine(format!("{shown} says '{line}' of itself, which {rule}")));
        }
    };
    std::mem::forget(library);
    Ok(Some(Opened { calls, version: line }))
}

/// Whether the loader found no file of that name; anything else is a library, or a dependency of it, that does not
/// load.
fn is_absent(error: &libloading::Error, name: &Path) -> bool {
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    text.starts_with(&format!("{}: cannot open shared object file", name.display()))
}

/// The function or object `symbol` of the library.
fn find<T: Copy>(library: &Library, name: &Path, symbol: &str) -> Result<T> {
    // SAFETY: the type is that of the MPI standard's C binding, for handles of the library's interface.
    let found: std::result::Result<Symbol<T>, _> = unsafe { library.get(symbol.as_bytes()) };
    let lacking = |_| Error::machine(format!("{} lacks {symbol}; MPI 3.0 or newer is needed", name.display()));
    found.map(|symbol| *symbol).map_err(lacking)
}

/// The library's version text.
fn version(library: &Library, name: &Path) -> Result<String> {
    type Ask = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    let ask: Ask = find(library, name, "MPI_Get_library_version")?;
    let (mut text, mut length) = (vec![0_u8; VERSION_BYTES], 0);
    // SAFETY: the buffer is as long as any library's text; the call is allowed before MPI_Init.
    unsafe { ask(text.as_mut_ptr().cast(), &raw mut length) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

/// The major version of the library's standard interface; negative if it has another interface, `None` if it does not
/// support the query.
fn standard(library: &Library) -> Option<c_int> {
    type Ask = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    let ask: Ask = find(library, Path::new(""), "MPI_Abi_get_version").ok()?;
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: both pointers are valid for the call, which is allowed before MPI_Init.
    let code = unsafe { ask(&raw mut major, &raw mut minor) };
    (code == 0).then_some(major)
}

/// Open MPI's constants are addresses of objects.
fn addresses(library: &Library, name: &Path) -> Result<[*mut c_void; 3]> {
    let address = |symbol| find::<*mut c_void>(library, name, symbol);
    Ok([address("ompi_mpi_comm_world")?, address("ompi_mpi_byte")?, address("ompi_mpi_errors_return")?])
}

impl<H: Copy + 'static> Functions<H> {
    fn find(library: &Library, name: &Path, abi: Abi, handles: [H; 3]) -> Result<Self> {
        let [world, byte, errors_return] = handles;
        Ok(Self {
            abi,
            world,
            byte,
            errors_return,
            init_thread: find(library, name, "MPI_Init_thread")?,
            set_error_handler: find(library, name, "MPI_Comm_set_errhandler")?,
            comm_rank: find(library, name, "MPI_Comm_rank")?,
            comm_size: find(library, name, "MPI_Comm_size")?,
            gather_to_all: find(library, name, "MPI_Iallgather")?,
            broadcast: find(library, name, "MPI_Ibcast")?,
            send: find(library, name, "MPI_Isend")?,
            receive: find(library, name, "MPI_Irecv")?,
            test: find(library, name, "MPI_Test")?,
            abort: find(library, name, "MPI_Abort")?,
            finalize: find(library, name, "MPI_Finalize")?,
        })
    }

    fn number(&self, ask: Number<H>, function: &str) -> Result<usize> {
        let mut number = -1;
        // SAFETY: the communicator is the world's, and the pointer is valid for the call.
        check(unsafe { ask(self.world, &raw mut number) }, function)?;
        usize::try_from(number).map_err(|_| Error::machine(format!("{function} answers {number}")))
    }

    fn begin(&self, function: &'static str, call: impl FnOnce(*mut H) -> c_int) -> Result<Box<dyn Operation>> {
        let mut request = std::mem::MaybeUninit::<H>::zeroed();
        check(call(request.as_mut_ptr()), function)?;
        // SAFETY: handles are numbers or pointers that are never dereferenced; all zeros is a valid value, and the call
        // has set it.
        let request = unsafe { request.assume_init() };
        Ok(Box::new(Begun { test: self.test, request, is_done: false, function }))
    }
}

/// A started operation, by its request.
struct Begun<H> {
    test: Test<H>,
    request: H,
    is_done: bool,
    function: &'static str,
}

impl<H> Operation for Begun<H> {
    fn is_done(&mut self) -> Result<bool> {
        let (mut done, mut status) = (0, [0_u64; STATUS_WORDS]);
        if !self.is_done {
            // SAFETY: the request is one that the library has given and not yet taken back; the status is larger than any.
            check(
                unsafe { (self.test)(&raw mut self.request, &raw mut done, status.as_mut_ptr().cast()) },
                self.function,
            )?;
            self.is_done = done != 0;
        }
        Ok(self.is_done)
    }
}

fn check(code: c_int, function: &str) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::machine(format!("{function} failed with code {code}"))) }
}

/// A length in MPI's integer type.
fn count(bytes: &[u8]) -> Result<c_int> {
    let failed = |_| Error::machine(format!("a message of {} bytes is longer than MPI counts", bytes.len()));
    c_int::try_from(bytes.len()).map_err(failed)
}

fn number(rank: usize) -> c_int {
    c_int::try_from(rank).unwrap_or(c_int::MAX)
}

impl<H: Copy + 'static> Calls for Functions<H> {
    fn enter(&self) -> Result<()> {
        let (wanted, mut provided) = (self.abi.funneled(), 0);
        // SAFETY: both arguments of main may be null since MPI 2; the pointer is valid for the call.
        check(
            unsafe { (self.init_thread)(ptr::null_mut(), ptr::null_mut(), wanted, &raw mut provided) },
            "MPI_Init_thread",
        )?;
        // SAFETY: world and handler are constants of the library's interface.
        check(unsafe { (self.set_error_handler)(self.world, self.errors_return) }, "MPI_Comm_set_errhandler")?;
        if provided >= wanted {
            return Ok(());
        }
        Err(Error::machine("this MPI library allows no threads at all; one built for MPI_THREAD_FUNNELED is needed"))
    }

    fn rank_and_size(&self) -> Result<(usize, usize)> {
        Ok((self.number(self.comm_rank, "MPI_Comm_rank")?, self.number(self.comm_size, "MPI_Comm_size")?))
    }

    unsafe fn gather_to_all(&self, send: &[u8], receive: &mut [u8]) -> Result<Box<dyn Operation>> {
        let (length, from, to) = (count(send)?, send.as_ptr().cast(), receive.as_mut_ptr().cast());
        // SAFETY: the caller keeps both buffers, and the second has room for all.
        self.begin("MPI_Iallgather", |request| unsafe {
            (self.gather_to_all)(from, length, self.byte, to, length, self.byte, self.world, request)
        })
    }

    unsafe fn broadcast(&self, buffer: &mut [u8], root: usize) -> Result<Box<dyn Operation>> {
        let (length, pointer) = (count(buffer)?, buffer.as_mut_ptr().cast());
        // SAFETY: the caller keeps the buffer.
        self.begin("MPI_Ibcast", |request| unsafe {
            (self.broadcast)(pointer, length, self.byte, number(root), self.world, request)
        })
    }

    unsafe fn send(&self, buffer: &[u8], to: usize) -> Result<Box<dyn Operation>> {
        let (length, pointer) = (count(buffer)?, buffer.as_ptr().cast());
        // SAFETY: the caller keeps the buffer.
        self.begin("MPI_Isend", |request| unsafe {
            (self.send)(pointer, length, self.byte, number(to), TAG, self.world, request)
        })
    }

    unsafe fn receive(&self, buffer: &mut [u8], from: usize) -> Result<Box<dyn Operation>> {
        let (length, pointer) = (count(buffer)?, buffer.as_mut_ptr().cast());
        // SAFETY: the caller keeps the buffer.
        self.begin("MPI_Irecv", |request| unsafe {
            (self.receive)(pointer, length, self.byte, number(from), TAG, self.world, request)
        })
    }

    fn abort(&self, code: u8) {
        // SAFETY: the world is a constant of the library's interface.
        unsafe { (self.abort)(self.world, c_int::from(code)) };
    }

    fn leave(&self) -> Result<()> {
        // SAFETY: entered, not left before, and nothing is under way that the others have not begun, too.
        check(unsafe { (self.finalize)() }, "MPI_Finalize")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_by_what_they_say() {
        assert_eq!(Abi::of_library("Open MPI v5.0.11, package: x", None), Some(Abi::OpenMpi));
        assert_eq!(Abi::of_library("MPICH Version:      5.0.2\n", Some(-1)), Some(Abi::Mpich));
        assert_eq!(Abi::of_library("MPICH Version:      5.0.2\n", Some(1)), Some(Abi::Standard));
        assert_eq!(Abi::of_library("Intel(R) MPI Library 2021.12", None), Some(Abi::Mpich));
        assert_eq!(Abi::of_library("MVAPICH Version: 3.0", None), Some(Abi::Mpich));
        assert_eq!(Abi::of_library("Some MPI 1.0", None), None);
        assert_eq!((Abi::Mpich.funneled(), Abi::Standard.funneled()), (1, 1024));
    }

    #[test]
    fn a_library_that_is_not_there_is_no_fault_and_one_that_is_no_mpi_is() {
        assert!(open(Path::new("libmpi-of-nobody.so.7")).unwrap().is_none());
        let refused = open(Path::new("libc.so.6")).err().unwrap().to_string();
        assert_eq!(refused, "libc.so.6 lacks MPI_Get_library_version; MPI 3.0 or newer is needed");
    }
}
