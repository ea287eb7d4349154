// TLS of a connection over TCP: where its certificates come from, and what went wrong with them.

import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { socketPath, type Candidate } from './address.js'
import { makeError, type PannierError } from './errors.js'
import { checkKnown } from './options.js'
import type { TlsOptions } from './transport/dial.js'

const KNOWN = ['ca', 'cert', 'key', 'serverName'] as const

/** The option, or what the environment names; undefined: no TLS. @throws TypeError */
export function tlsOptions(given: boolean | TlsOptions | undefined, places: readonly Candidate[], env: NodeJS.ProcessEnv): TlsOptions | undefined {
  const overTcp = places.some(({ target }) => socketPath(target) === undefined)
  if (given === undefined) {
    const { PANNIER_TLS_CA: ca, PANNIER_TLS_CLIENT_CERT: cert, PANNIER_TLS_CLIENT_KEY: key } = env
    if (!overTcp || !ca) return undefined
    return { ca: read('PANNIER_TLS_CA', ca), ...(cert && key ? { cert: read('PANNIER_TLS_CLIENT_CERT', cert), key: read('PANNIER_TLS_CLIENT_KEY', key) } : {}) }
  }
  if (given === false) return undefined
  if (!overTcp) throw new TypeError('connect: tls is for an address such as "host:port"; a unix socket needs none')
  if (given === true) return {}
  checkKnown('connect: tls', given, KNOWN)
  if ((given.cert === undefined) !== (given.key === undefined)) throw new TypeError('connect: tls.cert and tls.key belong together')
  return given
}

function read(name: string, path: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw new TypeError(`pannier: ${name} ${path} cannot be read: ${(cause as Error).message}`, { cause })
  }
}

/** A token in clear is for this machine only. @throws TypeError */
export function refuseInClear(places: readonly Candidate[]): void {
  for (const { target } of places) {
    if (socketPath(target) !== undefined) continue
    const host = target.slice(0, target.lastIndexOf(':')).replace(/^\[(.*)\]$/, '$1')
    const inside = host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
    if (!inside) throw new TypeError(`connect: the token would go to ${host} in clear; give tls: true, or tls: { ca }`)
  }
}

/** What Node's TLS says when it is a certificate, or TLS itself, that is wrong: no waiting cures that. */
const WRONG = /certificate|self.signed|altnames|issuer|wrong version number|EPROTO|SSL routines|ERR_SSL|ERR_TLS|handshake failure|alert/i

/** The same failure, as one of TLS; undefined if it is not. */
export function tlsFailure(failure: PannierError): PannierError | undefined {
  if (failure.reason !== 'SIDECAR_UNREACHABLE' || !WRONG.test(failure.message)) return undefined
  return makeError({ code: 'UNAVAILABLE', reason: 'TLS_FAILED', message: `TLS with the sidecar came to nothing: ${failure.message}`, cause: failure })
}
