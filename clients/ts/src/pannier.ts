// A connection to a sidecar, as an application holds it.

import { credentials } from '@grpc/grpc-js'
import { Blobs } from './blobs/index.js'
import { AdminServiceClient } from './gen/pannier/v1/admin.js'
import { BlobServiceClient } from './gen/pannier/v1/blob.js'
import { CapServiceClient } from './gen/pannier/v1/cap.js'
import { ConversationServiceClient } from './gen/pannier/v1/conversation.js'
import { DedupServiceClient } from './gen/pannier/v1/dedup.js'
import { ScheduleServiceClient } from './gen/pannier/v1/schedule.js'
import { SessionServiceClient } from './gen/pannier/v1/session.js'
import { Caps } from './caps/caps.js'
import type { Connection, ConnectionStatus } from './connection.js'
import { closed } from './errors.js'
import { Conversations } from './conversations/conversations.js'
import { Dedup } from './dedup/dedup.js'
import { checkKnown, milliseconds, type Duration } from './options.js'
import { Pipe } from './pipe/pipe.js'
import { Schedule } from './schedule/schedule.js'
import { Sessions } from './sessions.js'
import type { Value } from './value.js'
import { atMost } from './waiting.js'
import type { Handler } from './worker/job.js'
import { Worker, type WorkerOptions } from './worker/worker.js'

/** Something that close() closes first, such as an open session. */
export interface Dependent {
  close(timeoutMs: number): Promise<void>
}

/** The generated clients, for what this package does not wrap. They share the connection and its token; give your own deadlines. */
export interface RawClients {
  session: SessionServiceClient
  admin: AdminServiceClient
  blob: BlobServiceClient
  dedup: DedupServiceClient
  conversation: ConversationServiceClient
  cap: CapServiceClient
  schedule: ScheduleServiceClient
}

/** Made by `connect`. */
export class Pannier implements AsyncDisposable {
  /** Session calls that need no lease. */
  readonly sessions: Sessions
  /** Archives and other large state. */
  readonly blobs: Blobs
  /** Messages handled once. */
  readonly dedup: Dedup
  /** Where each chat is. */
  readonly conversations: Conversations
  /** How much may be sent. */
  readonly caps: Caps
  /** Jobs: delayed, retried, recurring. */
  readonly schedule: Schedule
  readonly namespace: string
  readonly #pipe: Pipe
  readonly #connection: Connection
  readonly #dependents = new Set<Dependent>()
  readonly #listeners = new Set<(status: ConnectionStatus) => void>()
  #raw: RawClients | undefined
  #closing: Promise<void> | undefined

  /** @internal */
  constructor(connection: Connection, namespace: string, timeoutMs: number) {
    this.#connection = connection
    this.namespace = namespace
    this.sessions = new Sessions(connection, namespace, timeoutMs)
    this.blobs = new Blobs(connection, namespace, timeoutMs)
    this.#pipe = new Pipe(connection, timeoutMs)
    this.dedup = new Dedup(this.#pipe, namespace)
    this.conversations = new Conversations(this.#pipe, connection, namespace)
    this.caps = new Caps(this.#pipe, connection, namespace)
    this.schedule = new Schedule(this.#pipe, connection, namespace)
    connection.onStatus = status => {
      for (const listener of this.#listeners) listener(status)
    }
  }

  /**
   * Runs jobs of a queue, or of 1..64 queues, from now on until `close()`. `handler` gets one job at a time, `concurrency` of them at
   * once; what it gives is the job's result (a text, bytes or JSON, ≤ 64 KiB), what it throws makes the job come again after the wait of
   * its retry policy. See Worker.
   * @throws TypeError, BadRequestError for wrong options; ClosedError.
   */
  worker<Payload = Value, Result = unknown>(queues: string | readonly string[], handler: Handler<Payload, Result>, options: WorkerOptions = {}): Worker<Payload, Result> {
    if (this.closing) throw closed('the connection')
    return new Worker(this, queues, handler, options)
  }

  /** Where the sidecar is: `unix:/path` or `host:port`. */
  get address(): string {
    return this.#connection.target
  }

  /** Of the connection. Nothing needs to be done when it is `connecting`: calls wait within their deadlines. */
  get status(): ConnectionStatus {
    return this.#connection.status
  }

  /** Generated clients on this connection. */
  get raw(): RawClients {
    if (this.#raw === undefined) {
      const options = { channelOverride: this.#connection.client.getChannel(), interceptors: [this.#connection.authorize] }
      const { target } = this.#connection
      // The channel has its own credentials: these are not used.
      const unused = credentials.createInsecure()
      this.#raw = {
        session: new SessionServiceClient(target, unused, options),
        admin: new AdminServiceClient(target, unused, options),
        blob: new BlobServiceClient(target, unused, options),
        dedup: new DedupServiceClient(target, unused, options),
        conversation: new ConversationServiceClient(target, unused, options),
        cap: new CapServiceClient(target, unused, options),
        schedule: new ScheduleServiceClient(target, unused, options),
      }
    }
    return this.#raw
  }

  /** Listens to changes of `status`; returns what stops it. There are no `error` events: calls reject. */
  on(event: 'status', listener: (status: ConnectionStatus) => void): () => void {
    if (event !== 'status') throw new TypeError(`pannier: there is no event "${String(event)}"; there is "status"`)
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /**
   * Flushes and releases open sessions, lets `dedup.run`s and calls that are open end, then disconnects. Always ends, at the latest
   * after `timeout` (default 5 s); what is open then rejects with ClosedError.
   */
  close(options: { timeout?: Duration } = {}): Promise<void> {
    checkKnown('close', options, ['timeout'])
    this.#closing ??= this.#close(milliseconds('close: timeout', options.timeout, 5000))
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs
    await atMost(timeoutMs, Promise.allSettled([this.dedup.close(), ...[...this.#dependents].map(dependent => dependent.close(timeoutMs))]))
    await this.#pipe.close(deadline - performance.now())
    this.#connection.close()
  }

  /** @internal close() has been called. */
  get closing(): boolean {
    return this.#closing !== undefined
  }

  /** @internal */
  get connection(): Connection {
    return this.#connection
  }

  /** @internal close() will close it first, until the returned function is called. */
  adopt(dependent: Dependent): () => void {
    this.#dependents.add(dependent)
    return () => this.#dependents.delete(dependent)
  }
}
