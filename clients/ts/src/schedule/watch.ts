// What happens in a queue, as it happens. An iterator that goes on over broken streams, and says where something may be missing.

import type { Metadata, ClientReadableStream, ServiceError } from '@grpc/grpc-js'
import type { Connection } from '../connection.js'
import { closed, fromService, type PannierError } from '../errors.js'
import { ScheduleServiceService as Service, WatchQueueResponse_Event as Wire, type WatchQueueResponse } from '../gen/pannier/v1/schedule.js'
import { ATTACH_AGAIN } from '../stream/requests.js'
import { backoff } from '../waiting.js'

const NAMES = {
  [Wire.EVENT_CREATED]: 'created', [Wire.EVENT_LEASED]: 'leased', [Wire.EVENT_DONE]: 'done', [Wire.EVENT_DEAD]: 'dead', [Wire.EVENT_RETRY]: 'retry',
  [Wire.EVENT_LEASE_LOST]: 'leaseLost', [Wire.EVENT_RELEASED]: 'released', [Wire.EVENT_CANCELLED]: 'cancelled',
  [Wire.EVENT_PROGRESS]: 'progress', [Wire.EVENT_RESCHEDULED]: 'rescheduled',
} as const

/**
 * Something happened. `watching`: the first one; from here on. `resync`: some may be missing; read again what you need. `retry`: an
 * attempt failed, another follows. `leaseLost`: a worker was lost; once for each time.
 */
export type QueueEvent =
  | { readonly event: 'watching' | 'resync'; readonly at: Date | undefined }
  | {
      readonly event: (typeof NAMES)[keyof typeof NAMES]
      readonly number: number
      /** Undefined when the job was gone before it could be read. */
      readonly id: string | undefined
      readonly at: Date | undefined
    }

/** @internal */
export async function* watchQueue(connection: Connection, namespace: string, queue: string, signal: AbortSignal | undefined): AsyncGenerator<QueueEvent, void, undefined> {
  let watched = false
  for (let attempt = 0; !signal?.aborted; ) {
    const call = open(connection, connection.metadata(), { namespace, queue })
    const stop = (): void => call.cancel()
    signal?.addEventListener('abort', stop, { once: true })
    try {
      for await (const message of call as AsyncIterable<WatchQueueResponse>) {
        attempt = 0
        const event = toEvent(message, watched)
        if (event === undefined) continue
        watched = true
        yield event
      }
    } catch (cause) {
      const error: PannierError = fromService(cause as ServiceError)
      if (signal?.aborted) return
      if (connection.status === 'closed') throw closed('the connection')
      if (!ATTACH_AGAIN.has(error.reason)) throw error
    } finally {
      signal?.removeEventListener('abort', stop)
      call.cancel()
    }
    await pause(backoff(attempt++, 50, 2000), signal)
  }
}

function open(connection: Connection, metadata: Metadata, request: { namespace: string; queue: string }): ClientReadableStream<WatchQueueResponse> {
  const { path, requestSerialize, responseDeserialize } = Service.watchQueue
  const call = connection.client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, request, metadata)
  // Of a call that is cancelled while nobody reads it.
  call.on('error', () => {})
  return call
}

function toEvent({ event, number, id, at }: WatchQueueResponse, watched: boolean): QueueEvent | undefined {
  // A stream that was opened again begins after a gap.
  if (event === Wire.EVENT_WATCHING) return { event: watched ? 'resync' : 'watching', at }
  if (event === Wire.EVENT_RESYNC) return { event: 'resync', at }
  const name = NAMES[event as keyof typeof NAMES] as (typeof NAMES)[keyof typeof NAMES] | undefined
  return name === undefined ? undefined : { event: name, number: Number(number), id: id || undefined, at }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise(resolve => {
    const done = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal?.addEventListener('abort', done, { once: true })
  })
}
