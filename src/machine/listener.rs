//! Who listens at an address of this machine.

use std::fs;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use rustix::process::Pid;

use crate::machine::read;

/// Whether a host is this machine: one of its addresses can be bound to, which sends nothing.
pub fn is_here(host: &str) -> bool {
    let Ok(mut addresses) = (host, 0).to_socket_addrs() else { return false };
    addresses.any(|address| is_own(address.ip()))
}

fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The processes that listen on a port, as far as this one may see them: not those of other users, nor of other containers.
pub fn processes(port: u16) -> Vec<Pid> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(read);
    let sockets: Vec<String> = tables.flat_map(|table| listening(&table, port)).collect();
    if sockets.is_empty() {
        return Vec::new();
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).filter(|pid| holds(*pid, &sockets)).collect()
}

/// The links by which descriptors name the sockets that listen on a port, by `/proc/net/tcp` (proc(5)).
fn listening(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let its = u16::from_str_radix(fields.get(1)?.rsplit(':').next()?, 16).ok()?;
        (its == port && *fields.get(3)? == LISTEN).then(|| format!("socket:[{}]", fields.get(9).unwrap_or(&"")))
    };
    table.lines().filter_map(row).collect()
}

fn holds(pid: Pid, sockets: &[String]) -> bool {
    let entries = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    let mut links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn sockets_that_listen_are_found_by_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 8791 1 0 100 0 0 10 0\n   \
            1: 0100007F:1F40 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 8792 1 0 100 0 0 10 0\n   \
            2: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 8793 1 0 100 0 0 10 0\n";
        assert_eq!(listening(table, 8_000), ["socket:[8791]"], "a connection does not listen");
        assert_eq!(listening(table, 8_002), [""; 0]);
    }

    #[test]
    fn this_process_is_found_by_its_listener() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(processes(port).contains(&rustix::process::getpid()));
    }

    #[test]
    fn addresses_of_this_machine_are_here() {
        assert!(is_here("127.0.0.1") && is_here("::1") || !is_own("::1".parse().unwrap()));
        // Set apart for documentation (RFC 5737): nobody has it.
        assert!(!is_here("192.0.2.1"));
    }
}
