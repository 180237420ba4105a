//! nghttp2, the library under h2load. Declares the parts of nghttp2.h (1.52) that are used.

use std::ffi::{c_int, c_void};
use std::net::TcpStream;
use std::ptr;

use crate::{Call, Session, write_all_now};

/// A window that nobody has to wait for.
const WINDOW: i32 = i32::MAX;
const SETTINGS_ENABLE_PUSH: i32 = 2;
const SETTINGS_INITIAL_WINDOW_SIZE: i32 = 4;
const DATA_FLAG_EOF: u32 = 1;
const NV_FLAG_NO_COPY: u8 = 2 | 4;

#[repr(C)]
struct NameValue {
    name: *const u8,
    value: *const u8,
    name_length: usize,
    value_length: usize,
    flags: u8,
}

#[repr(C)]
struct SettingsEntry {
    id: i32,
    value: u32,
}

/// The beginning of every frame.
#[repr(C)]
struct FrameHeader {
    length: usize,
    stream: i32,
    kind: u8,
    flags: u8,
    reserved: u8,
}

type Read = extern "C" fn(*mut c_void, i32, *mut u8, usize, *mut u32, *mut *mut c_void, *mut c_void) -> isize;

#[repr(C)]
struct DataProvider {
    source: *mut c_void,
    read: Read,
}

type OnHeader =
    extern "C" fn(*mut c_void, *const FrameHeader, *const u8, usize, *const u8, usize, u8, *mut c_void) -> c_int;
type OnData = extern "C" fn(*mut c_void, u8, i32, *const u8, usize, *mut c_void) -> c_int;
type OnClose = extern "C" fn(*mut c_void, i32, u32, *mut c_void) -> c_int;

#[link(name = "nghttp2")]
unsafe extern "C" {
    fn nghttp2_session_callbacks_new(callbacks: *mut *mut c_void) -> c_int;
    fn nghttp2_session_callbacks_del(callbacks: *mut c_void);
    fn nghttp2_session_callbacks_set_on_header_callback(callbacks: *mut c_void, callback: OnHeader);
    fn nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks: *mut c_void, callback: OnData);
    fn nghttp2_session_callbacks_set_on_stream_close_callback(callbacks: *mut c_void, callback: OnClose);
    fn nghttp2_session_client_new(session: *mut *mut c_void, callbacks: *const c_void, user: *mut c_void) -> c_int;
    fn nghttp2_session_del(session: *mut c_void);
    fn nghttp2_submit_settings(session: *mut c_void, flags: u8, entries: *const SettingsEntry, count: usize) -> c_int;
    fn nghttp2_session_set_local_window_size(session: *mut c_void, flags: u8, stream: i32, size: i32) -> c_int;
    fn nghttp2_submit_request(
        session: *mut c_void,
        priority: *const c_void,
        fields: *const NameValue,
        count: usize,
        body: *const DataProvider,
        user: *mut c_void,
    ) -> i32;
    fn nghttp2_session_get_stream_user_data(session: *mut c_void, stream: i32) -> *mut c_void;
    fn nghttp2_session_mem_recv(session: *mut c_void, bytes: *const u8, length: usize) -> isize;
    fn nghttp2_session_mem_send(session: *mut c_void, bytes: *mut *const u8) -> isize;
}

/// What callbacks know.
struct Received {
    body: Vec<u8>,
    done: Vec<usize>,
}

pub struct Library {
    session: *mut c_void,
    /// Callbacks are told its address.
    received: *mut Received,
    fields: Vec<(String, String)>,
    output: Vec<u8>,
}

extern "C" fn read_body(
    _: *mut c_void,
    _: i32,
    buffer: *mut u8,
    room: usize,
    flags: *mut u32,
    _: *mut *mut c_void,
    user: *mut c_void,
) -> isize {
    // SAFETY: `user` is the session's, which lives as long as it; the buffer has that room.
    unsafe {
        let body = &(*user.cast::<Received>()).body;
        assert!(body.len() <= room, "a small body goes out in one piece");
        ptr::copy_nonoverlapping(body.as_ptr(), buffer, body.len());
        *flags |= DATA_FLAG_EOF;
        body.len() as isize
    }
}

extern "C" fn on_header(
    _: *mut c_void,
    _: *const FrameHeader,
    name: *const u8,
    name_length: usize,
    value: *const u8,
    value_length: usize,
    _: u8,
    _: *mut c_void,
) -> c_int {
    // SAFETY: the library says how long they are.
    let (name, value) =
        unsafe { (std::slice::from_raw_parts(name, name_length), std::slice::from_raw_parts(value, value_length)) };
    match name {
        b"grpc-status" => assert_eq!(value, b"0"),
        b":status" => assert_eq!(value, b"200"),
        _ => {}
    }
    0
}

extern "C" fn on_data(_: *mut c_void, _: u8, _: i32, _: *const u8, length: usize, _: *mut c_void) -> c_int {
    assert!(length > 0);
    0
}

extern "C" fn on_close(session: *mut c_void, stream: i32, error: u32, user: *mut c_void) -> c_int {
    assert_eq!(error, 0);
    // SAFETY: `user` is the session's, which lives as long as it; a stream's user data are its slot.
    unsafe {
        let slot = nghttp2_session_get_stream_user_data(session, stream) as usize;
        (*user.cast::<Received>()).done.push(slot - 1);
    }
    0
}

impl Library {
    pub fn new(call: &Call) -> Self {
        let received = Box::into_raw(Box::new(Received { body: call.body.clone(), done: Vec::new() }));
        let (mut callbacks, mut session) = (ptr::null_mut(), ptr::null_mut());
        let settings = [
            SettingsEntry { id: SETTINGS_ENABLE_PUSH, value: 0 },
            SettingsEntry { id: SETTINGS_INITIAL_WINDOW_SIZE, value: WINDOW as u32 },
        ];
        // SAFETY: as nghttp2.h describes these calls; the session keeps a copy of the callbacks.
        unsafe {
            assert_eq!(nghttp2_session_callbacks_new(&raw mut callbacks), 0);
            nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
            nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
            nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
            assert_eq!(nghttp2_session_client_new(&raw mut session, callbacks, received.cast()), 0);
            nghttp2_session_callbacks_del(callbacks);
            assert_eq!(nghttp2_submit_settings(session, 0, settings.as_ptr(), settings.len()), 0);
            assert_eq!(nghttp2_session_set_local_window_size(session, 0, 0, WINDOW), 0);
        }
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", call.path),
            (":authority", &call.authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { session, received, fields: fields.into(), output: Vec::new() }
    }
}

impl Session for Library {
    fn submit(&mut self, slot: usize) {
        let fields: [NameValue; 6] = std::array::from_fn(|index| {
            let (name, value) = &self.fields[index];
            NameValue {
                name: name.as_ptr(),
                value: value.as_ptr(),
                name_length: name.len(),
                value_length: value.len(),
                flags: NV_FLAG_NO_COPY,
            }
        });
        let body = DataProvider { source: ptr::null_mut(), read: read_body };
        // SAFETY: the fields' texts live as long as the session; the provider is copied. A slot from 1 is never null.
        let stream = unsafe {
            let user = (slot + 1) as *mut c_void;
            nghttp2_submit_request(self.session, ptr::null(), fields.as_ptr(), fields.len(), &raw const body, user)
        };
        assert!(stream > 0, "a request: {stream}");
    }

    fn receive(&mut self, bytes: &[u8], done: &mut Vec<usize>) {
        // SAFETY: the bytes are there for the call; callbacks alone touch what `received` points to.
        unsafe {
            let used = nghttp2_session_mem_recv(self.session, bytes.as_ptr(), bytes.len());
            assert_eq!(used, bytes.len() as isize, "the server keeps to the protocol");
            done.append(&mut (*self.received).done);
        }
    }

    fn write(&mut self, socket: &TcpStream) -> bool {
        loop {
            let mut bytes = ptr::null();
            // SAFETY: what is pointed to stays until the next call.
            let frame = unsafe {
                let length = nghttp2_session_mem_send(self.session, &raw mut bytes);
                assert!(length >= 0, "what is to be sent: {length}");
                if length == 0 { &[] } else { std::slice::from_raw_parts(bytes, length as usize) }
            };
            if frame.is_empty() {
                return write_all_now(socket, &mut self.output);
            }
            self.output.extend_from_slice(frame);
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: both were made in `new`, and nobody uses them any more.
        unsafe {
            nghttp2_session_del(self.session);
            drop(Box::from_raw(self.received));
        }
    }
}
