// One HTTP/2 connection to one sidecar, and calls on it that always settle.

import {
  Client,
  InterceptingCall,
  Metadata,
  connectivityState,
  credentials,
  type ChannelCredentials,
  type Interceptor,
  type MethodDefinition,
  type ServiceError,
} from '@grpc/grpc-js'
import { closed, deadlineExceeded, fromService, makeError, type PannierError } from './errors.js'
import type { Token } from './token.js'
import { Channel, type RawListener, type RawStream } from './transport/channel.js'
import type { TlsOptions } from './transport/dial.js'
import { unreachable } from './transport/grpc-status.js'
import { retried } from './waiting.js'

export type { TlsOptions } from './transport/dial.js'

/** How to reach a sidecar. */
export interface ConnectionOptions {
  target: string
  token: Token
  tls: TlsOptions | undefined
}

/** `ready`: connected. `connecting`: not now, trying. `closed`: by this process. */
export type ConnectionStatus = 'ready' | 'connecting' | 'closed'

const BULK_WINDOW = 1024 * 1024
/** The sidecar takes 1 024, and a session is one. */
export const STREAMS_A_CONNECTION = 1000

const bytes = (of: string | Uint8Array | undefined): Buffer | null => (of === undefined ? null : Buffer.from(of))

/** A connection. It connects when first used and again whenever it broke. */
export class Connection {
  readonly target: string
  /** The channel, for generated clients. */
  readonly client: Client
  /** Told of every change. */
  onStatus: (status: ConnectionStatus) => void = () => {}
  #status: ConnectionStatus = 'connecting'
  readonly #token: Token
  readonly #tls: TlsOptions | undefined
  /** For streams alone; the first that has room takes the next. */
  readonly #channels: Channel[] = []
  readonly #bulk = new Set<Channel>()

  constructor(options: ConnectionOptions) {
    this.target = options.target
    this.#token = options.token
    this.#tls = options.tls
    this.client = new Client(options.target, channelCredentials(options.tls), {
      'grpc.enable_retries': 0,
      'grpc.service_config_disable_resolution': 1,
      'grpc.use_local_subchannel_pool': 1,
      'grpc.initial_reconnect_backoff_ms': 50,
      'grpc.min_reconnect_backoff_ms': 50,
      'grpc.max_reconnect_backoff_ms': 1000,
      'grpc.keepalive_time_ms': 10_000,
      'grpc.keepalive_timeout_ms': 5_000,
      'grpc.max_receive_message_length': 8 * 1024 * 1024,
      'grpc.max_send_message_length': 8 * 1024 * 1024,
      'grpc-node.flow_control_window': 4 * 1024 * 1024,
      ...(options.tls?.serverName === undefined ? {} : { 'grpc.ssl_target_name_override': options.tls.serverName }),
    })
    this.#watch()
  }

  get status(): ConnectionStatus {
    return this.#status
  }

  /** Metadata of a call. */
  metadata(token = this.#token.value): Metadata {
    const metadata = new Metadata()
    if (token !== undefined) metadata.set('authorization', `Bearer ${token}`)
    return metadata
  }

  /** Adds the token to the calls of generated clients. */
  readonly authorize: Interceptor = (options, next) =>
    new InterceptingCall(next(options), {
      start: (metadata, listener, start) => {
        metadata.merge(this.metadata())
        start(metadata, listener)
      },
    })

  /** Opens a stream of raw messages, on a connection that streams have for themselves, or several. Without `hold` it keeps no process alive. */
  stream(path: string, listener: RawListener, hold = true): RawStream {
    let channel = this.#channels.find(one => one.streams < STREAMS_A_CONNECTION)
    if (channel === undefined) this.#channels.push((channel = new Channel(this.target, this.#tls)))
    if (this.#status === 'closed') channel.close()
    return this.#open(channel, path, listener, hold)
  }

  /** With the token as it is now. A stream that ends because its token was replaced, is one that broke: it can be opened again. */
  #open(channel: Channel, path: string, listener: RawListener, hold: boolean): RawStream {
    const token = this.#token.value
    const heard: RawListener = {
      onMessage: message => listener.onMessage(message),
      onEnd: (error, reached) => listener.onEnd(error && this.#known(error, token), reached),
    }
    return channel.open(path, token === undefined ? {} : { authorization: `Bearer ${token}` }, heard, hold)
  }

  #known(error: PannierError, shown: string | undefined): PannierError {
    return error.reason === 'UNAUTHENTICATED' && this.#token.isOther(shown) ? unreachable('the token was replaced', error) : error
  }

  /**
   * Opens a stream for bulk data on a connection of its own: whoever reads it slowly holds up nobody else, and little is kept in
   * memory. `done` ends that connection.
   */
  bulkStream(path: string, listener: RawListener): { stream: RawStream; done: () => void } {
    const channel = new Channel(this.target, this.#tls, BULK_WINDOW)
    this.#bulk.add(channel)
    const done = (): void => {
      this.#bulk.delete(channel)
      channel.close()
    }
    if (this.#status === 'closed') done()
    return { stream: this.#open(channel, path, listener, true), done }
  }

  /**
   * A unary call that settles within `timeoutMs`, retries included. Every call of this package is safe to repeat.
   * @throws PannierError
   */
  async unary<Request, Response>(
    method: Pick<MethodDefinition<Request, Response>, 'path' | 'requestSerialize' | 'responseDeserialize'>,
    request: Request,
    timeoutMs: number,
  ): Promise<Response> {
    const deadline = Date.now() + timeoutMs
    let last: PannierError | undefined
    return retried(() => this.once(method, request, deadline - Date.now()), (failure, waitMs) => {
      // The second time the deadline itself says little: the reason of the try before it says more.
      if (failure.reason === 'DEADLINE_EXCEEDED' && last) throw deadlineExceeded('the call', timeoutMs, failure.outcomeUnknown, last)
      if (!WORTH_ANOTHER_TRY.has(failure.reason) || Date.now() + waitMs >= deadline) return false
      last = failure
      return true
    })
  }

  /** One try of it. */
  once<Request, Response>(
    method: Pick<MethodDefinition<Request, Response>, 'path' | 'requestSerialize' | 'responseDeserialize'>,
    request: Request,
    timeoutMs: number,
  ): Promise<Response> {
    if (this.#status === 'closed') return Promise.reject(closed('the connection'))
    const deadline = Date.now() + timeoutMs
    const token = this.#token.value
    return new Promise((resolve, reject) => {
      const done = (error: ServiceError | null, response?: Response): void => {
        if (error) reject(this.#known(fromService(error), token))
        else if (response === undefined) reject(makeError({ code: 'INTERNAL', reason: 'INTERNAL', message: 'the sidecar gave no answer' }))
        else resolve(response)
      }
      this.client.makeUnaryRequest(method.path, method.requestSerialize, method.responseDeserialize, request, this.metadata(token), { deadline }, done)
    })
  }

  /**
   * Whether the sidecar says SERVING, of itself as a whole. Asked by the first answer of a Watch, which needs a valid token where
   * calls do: a Check needs none, and the first call would then be what is refused.
   */
  serving(timeoutMs: number): Promise<boolean> {
    if (this.#status === 'closed') return Promise.reject(closed('the connection'))
    const { path, requestSerialize, responseDeserialize } = HEALTH_WATCH
    const options = { deadline: Date.now() + timeoutMs }
    return new Promise((resolve, reject) => {
      const watch = this.client.makeServerStreamRequest(path, requestSerialize, responseDeserialize, null, this.metadata(), options)
      watch.once('data', (answer: number) => {
        resolve(answer === SERVING)
        watch.cancel()
      })
      // Also told of the cancelling, when it is settled.
      watch.on('error', (error: ServiceError) => reject(fromService(error)))
      watch.on('end', () => resolve(false))
    })
  }

  /** Ends it; calls still open are cancelled. */
  close(): void {
    if (this.#status === 'closed') return
    this.#set('closed')
    for (const channel of [...this.#channels, ...this.#bulk]) channel.close()
    this.#bulk.clear()
    this.client.close()
  }

  #watch(): void {
    const channel = this.client.getChannel()
    const state = channel.getConnectivityState(false)
    this.#set(state === connectivityState.READY ? 'ready' : 'connecting')
    channel.watchConnectivityState(state, Infinity, () => {
      if (this.#status !== 'closed') this.#watch()
    })
  }

  #set(status: ConnectionStatus): void {
    if (status === this.#status) return
    this.#status = status
    this.onStatus(status)
  }
}

/** After these the same unary call may succeed if it is made again. */
const WORTH_ANOTHER_TRY = new Set(['SIDECAR_UNREACHABLE', 'VALKEY_UNREACHABLE', 'STARTING', 'DRAINING', 'BUSY', 'STORE_CHANGED', 'VALKEY_REFUSES_WRITES'])

function channelCredentials(tls: TlsOptions | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure()
  return credentials.createSsl(bytes(tls.ca), bytes(tls.key), bytes(tls.cert))
}

// grpc.health.v1.Health/Watch of the service "": an empty message asks; the answer's field 1 is the status.
const SERVING = 1
const HEALTH_WATCH = {
  path: '/grpc.health.v1.Health/Watch',
  requestSerialize: (): Buffer => Buffer.alloc(0),
  responseDeserialize: (message: Buffer): number => (message[0] === 0x08 ? (message[1] ?? 0) : 0),
}
