//! A network namespace for this process alone, in which it finds the addresses and settings of the one that it leaves.
//! All addresses are those of its loopback device, so nothing that happens there reaches anybody else.
//!
//! # Safety
//! Each block passes plain numbers, or addresses of live local values, to the call that it names. The kernel's list of
//! addresses is read only between the calls that make and free it.

use crate::namespace::Identity;
use crate::sys::{check, socket};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The folders of settings that each network namespace has, without those of single devices.
const SETTINGS: [&str; 10] = [
    "core",
    "unix",
    "ipv4",
    "ipv4/conf/all",
    "ipv4/conf/default",
    "ipv4/conf/lo",
    "ipv6",
    "ipv6/conf/all",
    "ipv6/conf/default",
    "ipv6/conf/lo",
];
/// How long the kernel may take until sockets can have an address.
const USABLE_MAX: Duration = Duration::from_secs(10);
const USABLE_PAUSE: Duration = Duration::from_millis(1);
/// The number of the loopback device in each namespace.
const LOOPBACK: i32 = 1;
const LOOPBACK_NAME: &[u8] = b"lo";

/// The addresses and settings of a network namespace.
#[derive(Debug)]
pub struct NetworkSurroundings {
    identity: Identity,
    addresses: Vec<IpAddr>,
    settings: Vec<(PathBuf, Vec<u8>)>,
}

impl NetworkSurroundings {
    /// Reads those of this process's namespace.
    ///
    /// # Errors
    /// When the kernel does not list the addresses.
    pub fn here() -> io::Result<Self> {
        let folders = SETTINGS.iter().filter_map(|folder| fs::read_dir(Path::new("/proc/sys/net").join(folder)).ok());
        let paths = folders.flatten().filter_map(|entry| Some(entry.ok()?.path()));
        // Some may be read by root only, and some hold nothing yet.
        let settings = paths.filter_map(|path| fs::read(&path).ok().map(|value| (path, value)));
        Ok(Self { identity: Identity::own(), addresses: own_addresses()?, settings: settings.collect() })
    }

    /// Moves this process, which must have a single thread, to a network namespace of its own, without privilege to a user
    /// namespace as well. Nothing has changed if that fails.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn leave(&self) -> io::Result<()> {
        let user = if self.identity.is_root() { UnshareFlags::empty() } else { UnshareFlags::NEWUSER };
        // SAFETY: descriptors stay as they are.
        Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET | user) }?)
    }

    /// Gives the namespace that this process has just entered these addresses and settings. In a user namespace the
    /// process has its own user and group, and no others.
    ///
    /// # Errors
    /// When the kernel refuses an address.
    pub fn furnish(&self) -> io::Result<()> {
        if !self.identity.is_root() {
            self.identity.keep()?;
        }
        let control = socket::create(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        raise_loopback(control.as_fd())?;
        for (number, address) in self.addresses.iter().enumerate().filter(|(_, address)| !address.is_loopback()) {
            match address {
                IpAddr::V4(address) => add_ipv4(control.as_fd(), number, *address)?,
                IpAddr::V6(address) => add_ipv6(*address)?,
            }
        }
        self.addresses.iter().for_each(await_usable);
        for (path, value) in &self.settings {
            if fs::read(path).is_ok_and(|now| now != *value) {
                // What cannot be set here, such as groups that this namespace does not have, stays as it is.
                let _ = fs::write(path, value);
            }
        }
        Ok(())
    }
}

/// Returns the addresses of all devices of this process's network namespace.
///
/// # Errors
/// When the system does not tell them.
pub fn own_addresses() -> io::Result<Vec<IpAddr>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: `first` is live.
    check(unsafe { libc::getifaddrs(&raw mut first) }.into())?;
    let (mut found, mut next) = (Vec::new(), first);
    while !next.is_null() {
        // SAFETY: an entry of the list, which is freed below.
        let entry = unsafe { &*next };
        // SAFETY: its address is null, or that of a value as long as its family says.
        found.extend(unsafe { address_at(entry.ifa_addr) });
        next = entry.ifa_next;
    }
    // SAFETY: the list that was made above; nothing of it is in use.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// # Safety
/// `address` is null, or points to an address as long as its family says.
unsafe fn address_at(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: every address begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: that is its family's type; it may lie at any place.
            let of_family = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(of_family.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let of_family = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(of_family.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Returns a request about a device, or about one of its addresses.
fn request(name: &[u8]) -> libc::ifreq {
    // SAFETY: plain data for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request
}

fn raise_loopback(control: BorrowedFd<'_>) -> io::Result<()> {
    let mut request = request(LOOPBACK_NAME);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    ask(control, libc::SIOCSIFFLAGS, &mut request)
}

/// Adds an address that stands for itself alone, not for a network.
fn add_ipv4(control: BorrowedFd<'_>, number: usize, address: Ipv4Addr) -> io::Result<()> {
    let name = [LOOPBACK_NAME, format!(":{number}").as_bytes()].concat();
    for (action, value) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, Ipv4Addr::BROADCAST)] {
        let mut request = request(&name);
        let mut bytes = [0; size_of::<libc::sockaddr>()];
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[4..8].copy_from_slice(&value.octets());
        // SAFETY: plain bytes of the same length.
        request.ifr_ifru.ifru_addr = unsafe { std::mem::transmute::<[u8; 16], libc::sockaddr>(bytes) };
        ask(control, action, &mut request)?;
    }
    Ok(())
}

fn add_ipv6(address: Ipv6Addr) -> io::Result<()> {
    let control = socket::create(libc::AF_INET6, libc::SOCK_DGRAM, 0)?;
    let address = libc::in6_addr { s6_addr: address.octets() };
    let mut request = libc::in6_ifreq { ifr6_addr: address, ifr6_prefixlen: 128, ifr6_ifindex: LOOPBACK };
    ask(control.as_fd(), libc::SIOCSIFADDR, &mut request)
}

/// Waits until sockets can have an address. The kernel first makes sure that nobody else has one of IPv6; it does so in a
/// thread of its own, which waits for those that make and remove namespaces.
fn await_usable(address: &IpAddr) {
    let begun = Instant::now();
    let is_unusable = || {
        let bound = UdpSocket::bind((*address, 0));
        bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
    };
    while is_unusable() && begun.elapsed() < USABLE_MAX {
        std::thread::sleep(USABLE_PAUSE);
    }
}

fn ask<T>(control: BorrowedFd<'_>, action: libc::c_ulong, request: &mut T) -> io::Result<()> {
    // SAFETY: `request` is live and of the type that the action takes.
    check(unsafe { libc::ioctl(control.as_raw_fd(), action as _, std::ptr::from_mut(request)) }.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace_helper::in_helper_process;

    #[test]
    fn a_network_of_its_own_has_the_same_addresses_and_settings() {
        let mut here = NetworkSurroundings::here().unwrap();
        let hops = here.settings.iter_mut().find(|(path, _)| path.ends_with("ipv4/ip_default_ttl"));
        hops.expect("each namespace has it").1 = b"77\n".to_vec();
        assert!(here.addresses.iter().any(IpAddr::is_loopback), "{here:?}");
        // Others cannot all be set: sizes of tables that namespaces share, and groups that are not there.
        let of_sockets = ["core/somaxconn", "ipv4/tcp_rmem", "ipv4/ip_default_ttl", "ipv4/ip_local_port_range"];
        let differing = |now: &NetworkSurroundings| {
            let value = |of: &NetworkSurroundings, name: &str| {
                of.settings.iter().find(|(path, _)| path.ends_with(name)).map(|(_, value)| value.clone())
            };
            of_sockets.iter().filter(|name| value(&here, name) != value(now, name)).count()
        };
        let outcome = in_helper_process(|| {
            here.leave()?;
            here.furnish()?;
            let now = NetworkSurroundings::here()?;
            let has = |address: &IpAddr| now.addresses.contains(address);
            let can_bind = |address: &IpAddr| UdpSocket::bind((*address, 0)).is_ok();
            let lacks_others = UdpSocket::bind("198.51.100.7:0").is_err();
            let is_link_local = |address: &&IpAddr| matches!(address, IpAddr::V6(it) if it.is_unicast_link_local());
            let mut plain = here.addresses.iter().filter(|address| !is_link_local(address));
            Ok((plain.all(|it| has(it) && can_bind(it)), lacks_others, differing(&now)))
        });
        // Some systems do not allow it.
        let is_refused = outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        assert!(is_refused || outcome.as_ref().is_ok_and(|it| *it == (true, true, 0)), "{outcome:?}");
    }
}
