// A unix socket before the sidecar's, which loses answers: what the client wrote arrives, what the sidecar says to it does not, and
// the connection breaks.

import * as net from 'node:net'
import { once } from 'node:events'

export class LosingProxy {
  readonly #server: net.Server
  readonly #sockets = new Set<net.Socket>()
  #losing = false
  /** Answers lost so far. */
  lost = 0

  private constructor(
    readonly socket: string,
    target: string,
  ) {
    this.#server = net.createServer(client => {
      const server = net.connect(target)
      for (const one of [client, server]) {
        this.#sockets.add(one)
        one.on('error', () => {})
        one.on('close', () => {
          this.#sockets.delete(one)
          client.destroy()
          server.destroy()
        })
      }
      client.on('data', chunk => server.write(chunk))
      server.on('data', chunk => {
        if (!this.#losing || !hasData(chunk)) return void client.write(chunk)
        this.#losing = false
        this.lost++
        client.destroy()
      })
    })
  }

  static async start(socket: string, target: string): Promise<LosingProxy> {
    const proxy = new LosingProxy(socket, target)
    proxy.#server.listen(socket)
    await once(proxy.#server, 'listening')
    return proxy
  }

  get address(): string {
    return `unix:${this.socket}`
  }

  /** Loses the next answer. */
  loseNext(): void {
    this.#losing = true
  }

  stop(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
  }
}

/** An HTTP/2 DATA frame is among these, which begin with a frame as what a server writes at once does. */
function hasData(frames: Buffer): boolean {
  for (let at = 0; at + 9 <= frames.length; at += 9 + frames.readUIntBE(at, 3)) if (frames[at + 3] === 0) return true
  return false
}
