// connect(): finds the sidecar, waits until it serves, and says what to do if it does not come.

import { candidates, refusal, type Candidate } from './address.js'
import { Connection, type TlsOptions } from './connection.js'
import { makeError, type PannierError } from './errors.js'
import { checkKnown, milliseconds, type Duration } from './options.js'
import { Pannier } from './pannier.js'
import { Token } from './token.js'
import { refuseInClear, tlsFailure, tlsOptions } from './tls.js'
import { sleep } from './waiting.js'

/** How to connect. Everything is optional. */
export interface ConnectOptions {
  /**
   * `unix:/path/to/pannier.sock` or `host:port`. Default: `$PANNIER_ADDRESS`, else the sidecar's default socket
   * (`$XDG_RUNTIME_DIR/pannier/pannier.sock`, then `/tmp/pannier-<uid>/pannier.sock`), whose directory must belong to this
   * user or root and be closed to others.
   */
  address?: string
  /** What `pannier tokens add` printed, where the sidecar asks for a token: over TCP, say. */
  token?: string
  /**
   * A file that holds it. It is read again as time goes by: a token can be replaced while the bot runs. Default:
   * `$PANNIER_TOKEN_FILE`, if set.
   */
  tokenFile?: string
  /**
   * TLS, for TCP. `true`: with the system's roots. Default: none; with `$PANNIER_TLS_CA` set (and `$PANNIER_TLS_CLIENT_CERT` with
   * `$PANNIER_TLS_CLIENT_KEY`) that of these files.
   */
  tls?: boolean | TlsOptions
  /** The bot, number or tenant; ≤ 128 bytes. Default `default`. */
  namespace?: string
  /** How long to wait for a sidecar that is not there or not ready. Default 30 s. */
  readyTimeout?: Duration
  /** Of one call, retries included. Default 5 s. */
  timeout?: Duration
}

const KNOWN = ['address', 'token', 'tokenFile', 'tls', 'namespace', 'readyTimeout', 'timeout'] as const

/**
 * Connects to the sidecar and waits until it is ready.
 * @throws TypeError for a wrong option; UnavailableError when no sidecar came in time; AccessError for a missing or wrong token, and
 * where TLS comes to nothing.
 */
export async function connect(options: ConnectOptions = {}): Promise<Pannier> {
  checkKnown('connect', options, KNOWN)
  const namespace = options.namespace ?? 'default'
  if (typeof namespace !== 'string' || namespace === '' || Buffer.byteLength(namespace) > 128) {
    throw new TypeError('connect: namespace must be a text of 1..128 bytes')
  }
  const timeoutMs = milliseconds('connect: timeout', options.timeout, 5000)
  const readyMs = milliseconds('connect: readyTimeout', options.readyTimeout, 30_000)
  const uid = process.getuid?.()
  const places = candidates(options.address, process.env, uid)
  if (options.token !== undefined && options.tokenFile !== undefined) throw new TypeError('connect: give token or tokenFile, not both')
  const token = Token.of(options.token, options.tokenFile ?? process.env.PANNIER_TOKEN_FILE)
  const tls = tlsOptions(options.tls, places, process.env)
  if (token.value !== undefined && tls === undefined) refuseInClear(places)

  const deadline = Date.now() + readyMs
  const why = new Map<string, string>()
  const open = new Map<string, Connection>()
  try {
    do {
      for (const place of places) {
        const refused = refusal(place, uid ?? 0)
        if (refused !== undefined) {
          why.set(place.target, refused)
          continue
        }
        const connection = open.get(place.target) ?? new Connection({ target: place.target, token, tls })
        open.set(place.target, connection)
        const problem = await probe(connection, Math.min(1000, Math.max(100, deadline - Date.now())))
        if (problem === undefined) {
          open.delete(place.target)
          return new Pannier(connection, namespace, timeoutMs)
        }
        why.set(place.target, problem)
      }
      await sleep(Math.min(50, Math.max(0, deadline - Date.now())))
    } while (Date.now() < deadline)
  } finally {
    for (const connection of open.values()) connection.close()
  }
  throw notThere(places, why, readyMs)
}

/** Undefined if it serves; else why not. Throws what waiting does not cure. */
async function probe(connection: Connection, timeoutMs: number): Promise<string | undefined> {
  try {
    return (await connection.serving(timeoutMs)) ? undefined : 'it is there, but not ready'
  } catch (error) {
    const failure = error as PannierError
    if (failure.code === 'UNAUTHENTICATED' || failure.code === 'PERMISSION_DENIED') throw failure
    const untrusted = tlsFailure(failure)
    if (untrusted) throw untrusted
    return failure.message
  }
}

function notThere(places: readonly Candidate[], why: ReadonlyMap<string, string>, readyMs: number): PannierError {
  const tried = places.map(({ target }) => `${target} (${why.get(target) ?? 'not tried'})`).join(', ')
  return makeError({
    code: 'UNAVAILABLE',
    reason: 'SIDECAR_UNREACHABLE',
    message: `no sidecar is ready after ${readyMs} ms; tried ${tried}. Start one with \`pannier serve\`, or set PANNIER_ADDRESS`,
  })
}
