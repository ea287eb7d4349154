// Where the sidecar is: an address option, PANNIER_ADDRESS, or the two default sockets, whose directories must be safe: a
// stranger who can write there could pose as the sidecar.

import { lstatSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** One place to try. */
export interface Candidate {
  /** As grpc-js wants it: `unix:/path` or `host:port`. */
  target: string
  /** A default socket: its directory is checked before every use. */
  checked: boolean
}

/** The places to try, in order. */
export function candidates(address: string | undefined, env: NodeJS.ProcessEnv, uid: number | undefined): Candidate[] {
  const given = address ?? env.PANNIER_ADDRESS
  if (given !== undefined && given !== '') return [{ target: target(given), checked: false }]
  if (uid === undefined) {
    throw new TypeError(
      'pannier: this platform has no unix sockets for Node; give connect({ address: "host:port" }), or run the bot and the sidecar in WSL2',
    )
  }
  const sockets = [`/tmp/pannier-${uid}/pannier.sock`]
  if (env.XDG_RUNTIME_DIR) sockets.unshift(join(env.XDG_RUNTIME_DIR, 'pannier/pannier.sock'))
  return sockets.map(path => ({ target: `unix:${path}`, checked: true }))
}

function target(address: string): string {
  if (address.startsWith('unix:')) return `unix:${address.slice(5).replace(/^\/\/(?=\/)/, '')}`
  if (address.startsWith('/') || address.startsWith('./')) return `unix:${address}`
  if (/^(\[[0-9a-fA-F:.]+\]|[^:/\s]+):\d{1,5}$/.test(address)) return address
  throw new TypeError(`pannier: address must be "unix:/path/to/pannier.sock" or "host:port"`)
}

/** The socket's path, of a unix target. */
export function socketPath(of: string): string | undefined {
  return of.startsWith('unix:') ? of.slice(5) : undefined
}

/** Why this default socket cannot be used now; undefined if it can be tried. */
export function refusal(candidate: Candidate, uid: number): string | undefined {
  const path = socketPath(candidate.target)
  if (path === undefined || !candidate.checked) return undefined
  const directory = dirname(path)
  try {
    const info = lstatSync(directory)
    if (!info.isDirectory()) return `${directory} is not a real directory`
    if (info.uid !== uid && info.uid !== 0) return `${directory} belongs to uid ${info.uid}`
    if ((info.mode & 0o077) !== 0) return `${directory} is open to others (mode must be 0700)`
    return statSync(path).isSocket() ? undefined : `${path} is not a socket`
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    return code === 'ENOENT' ? 'no such socket' : `cannot look at it (${code ?? 'unknown error'})`
  }
}
