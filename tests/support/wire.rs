//! A wire between two network namespaces, at the ends of which packets arrive later than they were sent, as over a distance. Kernels
//! need no netem for it: both ends are devices that this process reads and writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// More than a packet may have.
const MOST: usize = 1 << 16;
/// So often it is looked whether the wire is still wanted.
const LOOK_UP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A wire; cut when dropped.
pub struct Wire {
    is_cut: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Wire {
    /// Makes a device at each end, a name in a namespace of `ip netns`; what one is sent comes out of the other so long after.
    pub fn connect(ends: [(&str, &str); 2], each_way: Duration) -> io::Result<Self> {
        let [(here, first), (there, second)] = ends;
        let (first, second) = (device(here, first)?, device(there, second)?);
        let is_cut = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (from, to) in [(first.try_clone()?, second.try_clone()?), (second, first)] {
            let (send, sent) = mpsc::channel();
            let is_cut = Arc::clone(&is_cut);
            threads.push(thread::spawn(move || take(from, &send, each_way, &is_cut)));
            threads.push(thread::spawn(move || give(to, &sent)));
        }
        Ok(Self { is_cut, threads })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.is_cut.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A network device of packets in a namespace. It is there as long as the file is open.
fn device(namespace: &str, name: &str) -> io::Result<File> {
    let (path, name) = (format!("/run/netns/{namespace}"), name.to_owned());
    // The device comes into being where the thread that opens it is; this one stays where it is.
    let made = thread::spawn(move || {
        move_into_link_name_space(File::open(path)?.as_fd(), Some(LinkNameSpaceType::Network))?;
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        // SAFETY: all zeroes are a request with an empty name and no flags.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the file is a tun's and the request its, both alive.
        match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
            0 => Ok(file),
            _ => Err(io::Error::last_os_error()),
        }
    });
    made.join().expect("it does not panic")
}

/// Takes what is sent into one end, until the wire is cut.
fn take(mut from: File, send: &mpsc::Sender<(Instant, Vec<u8>)>, each_way: Duration, is_cut: &AtomicBool) {
    let mut packet = vec![0; MOST];
    while !is_cut.load(Ordering::Relaxed) {
        let _ = poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&LOOK_UP));
        // An end that is not up yet has none.
        while let Ok(length @ 1..) = from.read(&mut packet) {
            if send.send((Instant::now() + each_way, packet[..length].to_vec())).is_err() {
                return;
            }
        }
    }
}

/// Gives it out of the other one when it is time, in order.
fn give(mut to: File, sent: &mpsc::Receiver<(Instant, Vec<u8>)>) {
    for (due, packet) in sent {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // What an end does not take is lost, as on every wire.
        let _ = to.write(&packet);
    }
}
