//! Threads as processes: a transport through channels that can be struck dead at any message.

use fastrand::Rng;
use standfast_member::{Patience, Transport, TransportError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// All connections between the ranks of one launch.
pub(crate) struct Network {
    connections: Vec<Connection>,
}

/// One rank's end.
pub(crate) struct Connection {
    rank: u32,
    to: Vec<Sender<(u32, Vec<u8>)>>,
    from: Receiver<(u32, Vec<u8>)>,
    struck: Arc<AtomicBool>,
    /// The number of the message at which this rank dies.
    strokes: Option<u64>,
    /// How many more messages the other ranks make once a rank has died.
    afterlife: u64,
    /// Whether the rank has asked for a message since the last pause.
    asks: Arc<AtomicBool>,
}

impl Network {
    /// Makes connections for this many ranks. The victim dies at its message with the given number.
    pub(crate) fn new(ranks: u32, seed: u64, victim: Option<(u32, u64)>) -> Self {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..ranks).map(|_| channel()).unzip();
        let struck = Arc::new(AtomicBool::new(false));
        let mut random = Rng::with_seed(seed ^ victim.map_or(0, |(_, at)| at));
        let connection = |(rank, from)| Connection {
            rank,
            to: senders.clone(),
            from,
            struck: struck.clone(),
            strokes: victim.filter(|(victim, _)| *victim == rank).map(|(_, at)| at),
            afterlife: random.u64(..60),
            asks: Arc::default(),
        };
        Self { connections: (0..).zip(receivers).map(connection).collect() }
    }

    /// Returns one connection for each rank.
    pub(crate) fn connections(self) -> Vec<Connection> {
        self.connections
    }
}

impl Connection {
    /// Returns the rank whose connection it is.
    pub(crate) fn number(&self) -> u32 {
        self.rank
    }

    /// Returns the flag that shows whether the rank has asked for a message since the last pause.
    pub(crate) fn asks(&self) -> Arc<AtomicBool> {
        self.asks.clone()
    }

    fn strike(&mut self) -> Result<(), TransportError> {
        let dead = |connection: &Self| {
            connection.struck.store(true, Ordering::SeqCst);
            Err(TransportError("killed".into()))
        };
        match &mut self.strokes {
            Some(0) => return dead(self),
            Some(left) => *left -= 1,
            None => {}
        }
        if self.struck.load(Ordering::SeqCst) {
            if self.afterlife == 0 {
                return dead(self);
            }
            self.afterlife -= 1;
        }
        Ok(())
    }
}

impl Transport for Connection {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.to.len() as u32
    }

    fn send(&mut self, to: u32, bytes: Vec<u8>) -> Result<(), TransportError> {
        self.strike()?;
        // A rank that has died does not receive it.
        let _ = self.to[to as usize].send((self.rank, bytes));
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<(u32, Vec<u8>)>, TransportError> {
        self.asks.store(true, Ordering::SeqCst);
        match self.from.try_recv() {
            Ok(message) => {
                self.strike()?;
                Ok(Some(message))
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) if self.struck.load(Ordering::SeqCst) => {
                self.strike()?;
                Ok(None)
            }
            Err(_) => Ok(None),
        }
    }

    fn pause(&mut self) -> Result<(), TransportError> {
        self.asks.store(false, Ordering::SeqCst);
        Ok(())
    }

    fn idle(&mut self, _: Patience) {
        std::thread::yield_now();
    }
}
