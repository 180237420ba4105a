//! The `h2` crate, polled by hand: its socket is a memory buffer, and its waker only sets a flag.

use std::cell::RefCell;
use std::io;
use std::net::TcpStream;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use http::{Method, Request};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{Call, Session, write_all_now};

/// A window that nobody has to wait for.
const WINDOW: u32 = (1 << 31) - 1;

/// What came and what waits to leave.
#[derive(Default)]
struct Memory {
    input: Vec<u8>,
    taken: usize,
    output: Vec<u8>,
}

struct Pipe(Rc<RefCell<Memory>>);

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let memory = &mut *self.0.borrow_mut();
        let left = &memory.input[memory.taken..];
        if left.is_empty() {
            return Poll::Pending;
        }
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        memory.taken += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

enum Stage {
    Idle,
    Head(ResponseFuture),
    Body(RecvStream),
}

struct Slot {
    stage: Stage,
    flag: Arc<Flag>,
    waker: Waker,
}

pub struct Crate {
    memory: Rc<RefCell<Memory>>,
    connection: Connection<Pipe, Bytes>,
    sender: SendRequest<Bytes>,
    request: Request<()>,
    body: Bytes,
    slots: Vec<Slot>,
}

impl Crate {
    pub fn new(call: &Call, outstanding: usize) -> Self {
        let memory = Rc::new(RefCell::new(Memory::default()));
        let mut builder = Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW).max_concurrent_reset_streams(0);
        let handshake = pin!(builder.handshake(Pipe(Rc::clone(&memory))));
        let Poll::Ready(Ok((sender, connection))) = handshake.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the preface is only written");
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{}{}", call.authority, call.path))
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(())
            .expect("a sound request");
        let slot = |_| {
            let flag = Arc::new(Flag(AtomicBool::new(false)));
            Slot { stage: Stage::Idle, waker: Waker::from(Arc::clone(&flag)), flag }
        };
        Self {
            memory,
            connection,
            sender,
            request,
            body: call.body.clone().into(),
            slots: (0..outstanding).map(slot).collect(),
        }
    }

    fn poll_connection(&mut self) {
        let polled = pin!(&mut self.connection).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the connection ended: {polled:?}");
    }
}

/// Whether the slot's request is over.
fn advance(slot: &mut Slot) -> bool {
    let context = &mut Context::from_waker(&slot.waker);
    loop {
        match &mut slot.stage {
            Stage::Idle => return false,
            Stage::Head(response) => {
                let Poll::Ready(response) = pin!(response).poll(context) else { return false };
                let response = response.expect("an answer");
                assert_eq!(response.status(), 200);
                slot.stage = Stage::Body(response.into_body());
            }
            Stage::Body(body) => match body.poll_data(context) {
                Poll::Ready(Some(data)) => {
                    let length = data.expect("data").len();
                    assert!(length > 0);
                    let _ = body.flow_control().release_capacity(length);
                }
                Poll::Ready(None) => {
                    let Poll::Ready(trailers) = body.poll_trailers(context) else { return false };
                    let trailers = trailers.expect("trailers").expect("there are some");
                    assert_eq!(trailers["grpc-status"], "0");
                    slot.stage = Stage::Idle;
                    return true;
                }
                Poll::Pending => return false,
            },
        }
    }
}

impl Session for Crate {
    fn submit(&mut self, slot: usize) {
        let ready = self.sender.poll_ready(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(ready, Poll::Ready(Ok(()))), "the server takes so many streams");
        let (response, mut stream) = self.sender.send_request(self.request.clone(), false).expect("a request");
        stream.send_data(self.body.clone(), true).expect("room for its body");
        self.slots[slot].stage = Stage::Head(response);
        self.slots[slot].flag.0.store(true, Ordering::Relaxed);
    }

    fn receive(&mut self, bytes: &[u8], done: &mut Vec<usize>) {
        {
            let memory = &mut *self.memory.borrow_mut();
            memory.input.drain(..memory.taken);
            memory.taken = 0;
            memory.input.extend_from_slice(bytes);
        }
        self.poll_connection();
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.flag.0.swap(false, Ordering::Relaxed) && advance(slot) {
                done.push(index);
            }
        }
    }

    fn write(&mut self, socket: &TcpStream) -> bool {
        self.poll_connection();
        for slot in &mut self.slots {
            // A first look says who is to be woken.
            if slot.flag.0.swap(false, Ordering::Relaxed) {
                assert!(!advance(slot));
            }
        }
        write_all_now(socket, &mut self.memory.borrow_mut().output)
    }
}
