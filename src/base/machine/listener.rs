//! Finds who listens at an address of this machine.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs, UdpSocket};

use rustix::process::Pid;

use crate::machine::read;

/// Where a host is, as seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has an address of this machine.
    Here,
    /// The way to it leaves this machine.
    Elsewhere,
    /// The way to it does not certainly leave this machine: containers are reached over bridges, for example.
    Unknown,
}

/// Where a host is. Sends nothing, except to resolve its name.
pub fn locate(host: &str) -> Place {
    let addresses: Vec<IpAddr> =
        (host, 0).to_socket_addrs().into_iter().flatten().map(|address| address.ip()).collect();
    if addresses.iter().any(|address| is_own(*address)) {
        return Place::Here;
    }
    let routes = read("/proc/net/route").unwrap_or_default();
    let leaves = |address: &IpAddr| match address {
        // Only hardware has a device; bridges, tunnels and containers' virtual interfaces have none.
        IpAddr::V4(address) => route(&routes, *address)
            .is_some_and(|interface| fs::exists(format!("/sys/class/net/{interface}/device")).unwrap_or(false)),
        IpAddr::V6(_) => false,
    };
    if !addresses.is_empty() && addresses.iter().all(leaves) { Place::Elsewhere } else { Place::Unknown }
}

/// The interface that packets to an address leave by, from `/proc/net/route`: the most specific of the matching routes.
fn route(table: &str, address: Ipv4Addr) -> Option<&str> {
    let address = u32::from(address);
    let row = |line: &'_ str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        // In network byte order, read as numbers of this machine.
        let number = |field: usize| Some(u32::from_str_radix(fields.get(field)?, 16).ok()?.swap_bytes());
        let (target, mask) = (number(1)?, number(7)?);
        (address & mask == target).then_some(mask)
    };
    let matching = table.lines().skip(1).filter_map(|line| Some((row(line)?, line.split_ascii_whitespace().next()?)));
    matching.max_by_key(|(mask, _)| *mask).map(|(_, interface)| interface)
}

fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// The processes that listen on a port, as far as this one may see them: not those of other users, or in other
/// containers.
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

/// The names that descriptors give the sockets that listen on a port, from `/proc/net/tcp` (proc(5)).
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
        assert_eq!(locate("127.0.0.1"), Place::Here);
        // Reserved for documentation (RFC 5737): no host has it.
        assert_ne!(locate("192.0.2.1"), Place::Here);
    }

    #[test]
    fn the_narrowest_route_is_taken() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
            docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        assert_eq!(route(table, Ipv4Addr::new(172, 17, 0, 2)), Some("docker0"));
        assert_eq!(route(table, Ipv4Addr::new(10, 1, 2, 3)), Some("eth0"));
        assert_eq!(route("Iface\n", Ipv4Addr::LOCALHOST), None);
    }
}
