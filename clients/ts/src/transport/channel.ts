// Long-lived gRPC streams on one HTTP/2 connection of Node's own. grpc-js does this too, but all its layers take as long for a
// message as everything else of a commit together; here a message is one write.

import * as http2 from 'node:http2'
import { closed, type PannierError } from '../errors.js'
import { dial, type TlsOptions } from './dial.js'
import { fromHeaders, unreachable } from './grpc-status.js'
import { framed, MessageSplitter } from './message-splitter.js'

/** Who listens to a stream. */
export interface RawListener {
  onMessage(message: Buffer): void
  /**
   * Once, unless `cancel` was called before. Without an error: the sidecar ended it in order. `reached` false: there never was a
   * connection, so nothing of what was written has arrived anywhere.
   */
  onEnd(error: PannierError | undefined, reached: boolean): void
}

/** A stream of raw messages. */
export interface RawStream {
  /** False: enough is waiting; go on after `drained`. */
  write(message: Uint8Array): boolean
  /** Settles when more may be written, or the stream is over. */
  drained(): Promise<void>
  /** No more will be written; what is received goes on. */
  finish(): void
  /** Takes nothing more in until `resume`: the sender then has to wait as well. */
  pause(): void
  resume(): void
  /** Messages that have their heads already, in one write. */
  send(frames: Uint8Array): void
  /** Ends it at once and silently. */
  cancel(): void
}

const CONNECT_MS = 5_000
const PING_EVERY_MS = 10_000
const PONG_MS = 5_000
/** What a peer may send before it is taken in, of a stream and of all of them. */
const WINDOW = 4 * 1024 * 1024
const { NGHTTP2_CANCEL } = http2.constants

/** A connection that is made when a stream needs it. */
export class Channel {
  /** Where new streams go. */
  #session: http2.ClientHttp2Session | undefined
  /** That one, and former ones that end in order. */
  readonly #sessions = new Set<http2.ClientHttp2Session>()
  readonly #connected = new WeakSet<http2.ClientHttp2Session>()
  #over = false
  #why: Error | undefined
  #streams = 0
  /** Of these streams: those that keep the process from ending. */
  #holding = 0
  #pinging: NodeJS.Timeout | undefined

  constructor(
    private readonly target: string,
    private readonly tls: TlsOptions | undefined,
    private readonly window = WINDOW,
  ) {}

  /** How many are open on its present connection. */
  get streams(): number {
    return this.#session && !this.#session.closed ? this.#streams : 0
  }

  /** Opens a stream; if it cannot be, that is its end. While one with `hold` is open, the process does not end by itself. */
  open(path: string, headers: Readonly<Record<string, string>>, listener: RawListener, hold = true): RawStream {
    if (this.#over) {
      queueMicrotask(() => listener.onEnd(closed('the connection'), false))
      return { write: () => false, send() {}, drained: () => Promise.resolve(), finish() {}, pause() {}, resume() {}, cancel() {} }
    }
    const session = this.#usable()
    const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers }, { endStream: false })
    this.#opened(session, hold)
    let over = false
    let status: PannierError | 'ok' | undefined
    const end = (cause?: unknown): void => {
      if (over) return
      over = true
      stream.close(NGHTTP2_CANCEL)
      listener.onEnd(status === 'ok' ? undefined : (status ?? unreachable('the stream broke', cause ?? this.#why)), this.#connected.has(session))
    }
    const heed = (received: http2.IncomingHttpHeaders): void => {
      status = fromHeaders(received) ?? status
    }
    const splitter = new MessageSplitter()
    stream.on('response', heed)
    stream.on('trailers', heed)
    stream.on('data', (chunk: Buffer) => {
      try {
        splitter.push(chunk, message => over || listener.onMessage(message))
      } catch (cause) {
        end(cause)
      }
    })
    stream.on('error', end)
    // After all data, also where the trailers were faster.
    stream.on('end', () => end())
    stream.on('close', () => {
      this.#closed(session, hold)
      end()
    })
    return {
      write: message => !over && stream.write(framed(message)),
      drained: () =>
        new Promise(resolve => {
          if (over || !stream.writableNeedDrain) return resolve()
          const done = (): void => {
            stream.off('drain', done).off('close', done)
            resolve()
          }
          stream.on('drain', done).on('close', done)
        }),
      finish: () => void (over || stream.end()),
      pause: () => void stream.pause(),
      resume: () => void stream.resume(),
      send: frames => void (over || stream.write(frames)),
      cancel: () => {
        over = true
        stream.close(NGHTTP2_CANCEL)
      },
    }
  }

  /** Ends it, with all its streams. */
  close(): void {
    this.#over = true
    clearInterval(this.#pinging)
    // Not at once: an answer may be what led here, and Node's HTTP/2 (nodejs/node#38964) goes on to read the streams that its
    // caller has destroyed meanwhile, from memory that is freed.
    setImmediate(() => {
      for (const session of this.#sessions) session.destroy()
    })
  }

  #usable(): http2.ClientHttp2Session {
    const present = this.#session
    if (present && !present.closed && !present.destroyed) return present
    this.#why = undefined
    this.#streams = 0
    this.#holding = 0
    const { authority, socket } = dial(this.target, this.tls)
    const session = http2.connect(authority, { createConnection: () => socket, settings: { enablePush: false, initialWindowSize: this.window } })
    this.#session = session
    this.#sessions.add(session)
    const slow = setTimeout(() => session.destroy(new Error(`no connection after ${CONNECT_MS} ms`)), CONNECT_MS).unref()
    session.once('connect', () => {
      clearTimeout(slow)
      // Node tells of the connection also after the end of it.
      if (session.destroyed) return
      this.#connected.add(session)
      session.setLocalWindowSize(this.window)
    })
    session.on('error', (error: Error) => {
      if (this.#session === session) this.#why = error
    })
    // It is going: what is open may end in order, what comes next needs another connection.
    session.on('goaway', () => session.close())
    session.once('close', () => {
      clearTimeout(slow)
      this.#sessions.delete(session)
      if (this.#session !== session) return
      this.#session = undefined
      clearInterval(this.#pinging)
    })
    return session
  }

  #opened(session: http2.ClientHttp2Session, hold: boolean): void {
    if (hold && this.#holding++ === 0) session.ref()
    // With nothing open that holds it up, no process stays for it.
    if (this.#holding === 0) session.unref()
    if (this.#streams++ > 0) return
    clearInterval(this.#pinging)
    this.#pinging = setInterval(() => this.#ping(session), PING_EVERY_MS).unref()
  }

  #closed(session: http2.ClientHttp2Session, hold: boolean): void {
    if (this.#session !== session) return
    if (hold && --this.#holding === 0) session.unref()
    if (--this.#streams === 0) clearInterval(this.#pinging)
  }

  /** A peer that has gone without a word answers no ping. */
  #ping(session: http2.ClientHttp2Session): void {
    if (session.destroyed || session.connecting) return
    const dead = setTimeout(() => session.destroy(new Error(`no answer to a ping after ${PONG_MS} ms`)), PONG_MS).unref()
    session.ping(() => clearTimeout(dead))
  }
}
