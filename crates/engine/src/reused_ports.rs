//! TCP sockets on which we have set SO_REUSEADDR so that a restart finds their ports free. A closed connection lingers
//! in the kernel for a minute, and its port can be bound meanwhile only if both sockets had the option. A killed job
//! cannot set it any more. This module remembers, by their cookies, which sockets have the option from us and not from
//! the program.

use standfast_linux::abi;
use standfast_linux::sys::socket;
use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

/// The sockets of one job that have the option from us.
#[derive(Debug, Default)]
pub(crate) struct ReusedPorts(Mutex<HashSet<u64>>);

impl ReusedPorts {
    /// Reports whether this socket has the option from us.
    pub(crate) fn holds(&self, own: BorrowedFd<'_>) -> bool {
        socket::cookie(own).is_ok_and(|cookie| self.cookies().contains(&cookie))
    }

    /// Sets the option, unless the program has done so. A socket without a cookie (before Linux 4.12) is left alone.
    pub(crate) fn set(&self, own: BorrowedFd<'_>) -> io::Result<()> {
        if socket::number(own, abi::SOL_SOCKET, abi::SO_REUSEADDR)? == 0 {
            let cookie = socket::cookie(own)?;
            socket::set_number(own, abi::SOL_SOCKET, abi::SO_REUSEADDR, 1)?;
            self.cookies().insert(cookie);
        }
        Ok(())
    }

    /// Notes sockets that have it already.
    pub(crate) fn extend(&self, cookies: impl IntoIterator<Item = u64>) {
        self.cookies().extend(cookies);
    }

    fn cookies(&self) -> std::sync::MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::{AsFd, OwnedFd};

    #[test]
    fn so_reuseaddr_set_by_the_program_is_not_recorded_as_ours() {
        let reused = ReusedPorts::default();
        // The standard library sets the option on listeners.
        let listener = OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
        let value = |own: BorrowedFd<'_>| socket::number(own, abi::SOL_SOCKET, abi::SO_REUSEADDR).unwrap();
        let plain = socket::create(abi::AF_INET, abi::SOCK_STREAM, 0).unwrap();
        reused.set(listener.as_fd()).unwrap();
        reused.set(plain.as_fd()).unwrap();
        assert_eq!([value(listener.as_fd()), value(plain.as_fd())], [1, 1]);
        assert_eq!([reused.holds(listener.as_fd()), reused.holds(plain.as_fd())], [false, true]);
    }
}
