//! The TCP listener. Strangers can reach it: until a connection has said the first words of HTTP/2, over TLS if asked, it has
//! little time and nothing of a call is made of it.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{Failure, tls::Certificates};
use crate::config::{ConfigError, Listen};

/// For the TLS handshake and the first words of HTTP/2 together.
const GREETING_WITHIN: Duration = Duration::from_secs(10);
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A peer that has vanished is found out by its silence: after this, and three tries this far apart.
const SILENCE: Duration = Duration::from_secs(60);
const TRY_EVERY: Duration = Duration::from_secs(10);

/// A bound port.
pub struct Tcp {
    listener: TcpListener,
    address: SocketAddr,
    certificates: Option<Arc<Certificates>>,
}

impl Tcp {
    /// Binds it.
    ///
    /// # Errors
    /// The address is taken, or not one of this machine.
    pub async fn bind(listen: &Listen) -> Result<Self, Failure> {
        let (host, port) = (listen.host.as_str(), listen.port);
        let failed = |error: io::Error| ConfigError(format!("--listen {host}:{port}: {error}"));
        let listener = TcpListener::bind((host, port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if listen.tls.is_none() && !address.ip().is_loopback() {
            return Err(ConfigError(format!(
                "--listen {host}:{port}: the name stands for {}, which others can reach: give --tls-cert and --tls-key",
                address.ip()
            ))
            .into());
        }
        let certificates = listen.tls.clone().map(Certificates::new).transpose()?;
        tracing::info!(%address, tls = certificates.is_some(), "listening on TCP");
        Ok(Self { listener, address, certificates })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The files to be read again.
    pub fn certificates(&self) -> Option<Arc<Certificates>> {
        self.certificates.clone()
    }

    /// The next connection; nothing of it is read yet.
    pub async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.listener.accept().await?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, SILENCE)?;
        sockopt::set_tcp_keepintvl(&stream, TRY_EVERY)?;
        sockopt::set_tcp_keepcnt(&stream, 3)?;
        Ok(stream)
    }
}

/// What HTTP/2 is spoken on.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Lets the peer say its first words.
///
/// # Errors
/// It does not in time, or others.
pub async fn greet(stream: TcpStream, certificates: Option<Arc<Certificates>>) -> io::Result<Box<dyn Wire>> {
    let greeting = async {
        Ok(match certificates {
            None => Box::new(Greeted::by(stream).await?) as Box<dyn Wire>,
            Some(certificates) => {
                let stream = TlsAcceptor::from(certificates.current()).accept(stream).await?;
                Box::new(Greeted::by(stream).await?)
            }
        })
    };
    timeout(GREETING_WITHIN, greeting)
        .await
        .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it said nothing in time")))
}

/// A connection whose first words were read, and are read once more by whoever speaks on it.
struct Greeted<S> {
    first: &'static [u8],
    stream: S,
}

impl<S: AsyncRead + Unpin> Greeted<S> {
    async fn by(mut stream: S) -> io::Result<Self> {
        let mut words = [0; PREFACE.len()];
        stream.read_exact(&mut words).await?;
        if words != *PREFACE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not speak HTTP/2"));
        }
        Ok(Self { first: PREFACE, stream })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let count = self.first.len().min(buf.remaining());
            let (now, later) = self.first.split_at(count);
            buf.put_slice(now);
            self.first = later;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
