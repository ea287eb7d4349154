//! A TCP proxy between a sidecar and a real Valkey that does what networks do: it delays, loses, cuts and drips.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};

/// What is wrong with the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Each byte comes so much later, both ways.
    Delay(Duration),
    /// Everything is lost without a word, also on new connections, which are taken. What was hit stays mute for ever.
    Silent,
    /// The connections that are there carry nothing any more, and are not closed. New ones work.
    HalfOpen,
    /// Commands arrive, and no reply comes back.
    NoReplies,
    /// Connections are reset, and new ones as soon as they are made.
    Reset,
    /// Each connection is reset in the middle of what it carries, after so many bytes one way.
    CutAfter(usize),
    /// So many bytes each 10 ms, one way.
    Drip(usize),
    /// The connections that are there are closed in order, as a server does with idle ones. New ones work.
    CloseOld,
}

/// The fault, and how many connections there had been when it began.
type State = (Fault, u64);

/// The proxy. It ends with its last test.
pub struct Network {
    pub port: u16,
    state: watch::Sender<State>,
    connections: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Network {
    /// To this port of 127.0.0.1; `buffer` bounds what the sockets' own buffers hold, 0 leaves them.
    pub async fn start(to: u16, buffer: u32) -> Self {
        let listener = tokio::net::TcpSocket::new_v4().unwrap();
        if buffer > 0 {
            listener.set_recv_buffer_size(buffer).unwrap();
            listener.set_send_buffer_size(buffer).unwrap();
        }
        listener.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = listener.listen(256).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = watch::Sender::new((Fault::None, 0));
        let connections = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(accept(listener, to, state.clone(), Arc::clone(&connections)));
        Self { port, state, connections, task }
    }

    /// For `--valkey-url`.
    pub fn url(&self) -> String {
        format!("valkey://127.0.0.1:{}", self.port)
    }

    /// From now on.
    pub fn suffer(&self, fault: Fault) {
        self.state.send_replace((fault, self.connections.load(Ordering::SeqCst)));
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, to: u16, state: watch::Sender<State>, count: Arc<AtomicU64>) {
    let mut running = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let state = state.subscribe();
        running.spawn(async move {
            if let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await {
                carry(client, server, number, state).await;
            }
        });
        while running.try_join_next().is_some() {}
    }
}

/// One connection: what of it is lost for good, and how much it has carried.
struct Carried {
    number: u64,
    state: watch::Receiver<State>,
    mute: [AtomicBool; 2],
    bytes: [AtomicUsize; 2],
}

async fn carry(mut client: TcpStream, mut server: TcpStream, number: u64, state: watch::Receiver<State>) {
    let (_, _) = (client.set_nodelay(true), server.set_nodelay(true));
    let mut changes = state.clone();
    let carried = Carried { number, state, mute: Default::default(), bytes: Default::default() };
    let reset = {
        let ((client_in, client_out), (server_in, server_out)) = (client.split(), server.split());
        let cut = async {
            loop {
                let (fault, before) = *changes.borrow_and_update();
                match fault {
                    Fault::Reset => return true,
                    Fault::CloseOld if number < before => return false,
                    _ => {}
                }
                if changes.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            reset = cut => reset,
            reset = pump(client_in, server_out, 0, &carried) => reset,
            reset = pump(server_in, client_out, 1, &carried) => reset,
        }
    };
    if reset {
        let (_, _) = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// One way of a connection; true when it ends in a reset.
async fn pump(from: ReadHalf<'_>, to: WriteHalf<'_>, way: usize, carried: &Carried) -> bool {
    // About as much as is on its way on a real line.
    let (sender, receiver) = mpsc::channel(64);
    let (reset, _) = tokio::join!(take_in(from, sender, way, carried), hand_on(to, receiver, &carried.state));
    reset
}

async fn take_in(
    mut from: ReadHalf<'_>,
    sender: mpsc::Sender<(Instant, Vec<u8>)>,
    way: usize,
    carried: &Carried,
) -> bool {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(n @ 1..) = from.read(&mut buffer).await else { break };
        let (fault, before) = *carried.state.borrow();
        let lost = match fault {
            Fault::Silent => true,
            Fault::HalfOpen => carried.number < before,
            Fault::NoReplies => way == 1,
            _ => false,
        };
        if lost {
            carried.mute[way].store(true, Ordering::Relaxed);
        }
        if carried.mute[way].load(Ordering::Relaxed) {
            continue;
        }
        let mut chunk = buffer[..n].to_vec();
        let at = Instant::now() + if let Fault::Delay(by) = fault { by } else { Duration::ZERO };
        let mut last = false;
        if let Fault::CutAfter(most) = fault {
            let so_far = carried.bytes[way].fetch_add(n, Ordering::Relaxed);
            chunk.truncate(most.saturating_sub(so_far));
            last = so_far + n >= most;
        }
        if sender.send((at, chunk)).await.is_err() {
            break;
        }
        if last {
            drop(sender);
            // What was let through arrives before the end does.
            sleep(Duration::from_millis(5)).await;
            return true;
        }
    }
    // A line that loses everything loses its end as well.
    while carried.mute[way].load(Ordering::Relaxed) {
        sleep(Duration::from_millis(50)).await;
    }
    false
}

async fn hand_on(
    mut to: WriteHalf<'_>,
    mut receiver: mpsc::Receiver<(Instant, Vec<u8>)>,
    state: &watch::Receiver<State>,
) {
    while let Some((at, chunk)) = receiver.recv().await {
        sleep_until(at).await;
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let now = match state.borrow().0 {
                Fault::Drip(bytes) => bytes.min(rest.len()),
                _ => rest.len(),
            };
            if to.write_all(&rest[..now]).await.is_err() {
                return;
            }
            rest = &rest[now..];
            if !rest.is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
        }
    }
}
