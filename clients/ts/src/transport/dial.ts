// A socket to `unix:/path`, `host:port` or `[v6]:port`, with TLS if asked.

import * as net from 'node:net'
import type { Duplex } from 'node:stream'
import * as tls from 'node:tls'

/** Certificates of a TCP connection. PEM text or bytes. */
export interface TlsOptions {
  /** Roots to trust instead of the system's. */
  ca?: string | Uint8Array
  /** This client's certificate chain, where the sidecar asks for one. */
  cert?: string | Uint8Array
  /** Its key. */
  key?: string | Uint8Array
  /** The name the sidecar's certificate is for, if it is not the address's host. */
  serverName?: string
}

/** Begins to connect. `authority`: what HTTP/2 calls the peer. */
export function dial(target: string, options: TlsOptions | undefined): { authority: string; socket: Duplex } {
  if (target.startsWith('unix:')) return { authority: 'http://localhost', socket: net.connect(target.slice('unix:'.length)) }
  const at = target.lastIndexOf(':')
  const host = target.slice(0, at).replace(/^\[(.*)\]$/, '$1')
  const port = Number(target.slice(at + 1))
  const socket = options ? secure(host, port, options) : net.connect({ host, port })
  socket.setNoDelay(true)
  return { authority: `${options ? 'https' : 'http'}://${target}`, socket }
}

function secure(host: string, port: number, { ca, cert, key, serverName }: TlsOptions): tls.TLSSocket {
  const bytes = (of: string | Uint8Array | undefined): Buffer | undefined => (of === undefined ? undefined : Buffer.from(of))
  const servername = serverName ?? (net.isIP(host) ? undefined : host)
  return tls.connect({
    host, port, ALPNProtocols: ['h2'],
    ...(servername === undefined ? {} : { servername }),
    ...(ca === undefined ? {} : { ca: bytes(ca) }), ...(cert === undefined ? {} : { cert: bytes(cert) }), ...(key === undefined ? {} : { key: bytes(key) }),
  })
}
