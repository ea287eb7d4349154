// How a gRPC stream ended, from the headers or trailers that say so.

import { status as GrpcCode } from '@grpc/grpc-js'
import type { IncomingHttpHeaders } from 'node:http2'
import { fromGrpc, makeError, type PannierError } from '../errors.js'

/** The error; 'ok'; undefined when these headers are not the end. */
export function fromHeaders(headers: IncomingHttpHeaders): PannierError | 'ok' | undefined {
  const http = Number(headers[':status'] ?? 200)
  const code = headers['grpc-status']
  if (code === undefined) {
    if (http === 200) return undefined
    const refused = http === 401 ? 'UNAUTHENTICATED' : http === 403 ? 'PERMISSION_DENIED' : undefined
    return refused ? fromGrpc(GrpcCode[refused], `HTTP ${http}`) : unreachable(`what answers is no sidecar: HTTP ${http}`)
  }
  const status = Number(code)
  if (status === Number(GrpcCode.OK)) return 'ok'
  const details = headers['grpc-status-details-bin']
  const bytes = typeof details === 'string' ? Buffer.from(details, 'base64') : undefined
  return fromGrpc(status, decoded(headers['grpc-message']), bytes)
}

/** There is no sidecar, or not any more. */
export function unreachable(what: string, cause?: unknown): PannierError {
  const why = cause instanceof Error ? `: ${cause.message}` : ''
  return makeError({ code: 'UNAVAILABLE', reason: 'SIDECAR_UNREACHABLE', message: `${what}${why}`, cause })
}

function decoded(message: string | string[] | undefined): string {
  const text = Array.isArray(message) ? message.join() : (message ?? '')
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
