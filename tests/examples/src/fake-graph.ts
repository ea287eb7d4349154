// As much of the Graph API as a bot uses: it takes messages, notes them, and can be made to fail.
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'

export const ACCESS_TOKEN = 'EAA-a-token'

export interface Sent {
  phoneNumberId: string
  to: string
  text: string
  /** When it came, by Date.now(). */
  at: number
}

export class FakeGraph {
  /** What was accepted, in order. */
  readonly sent: Sent[] = []
  /** Answer so instead of accepting anything. */
  failWith: { status: number; code?: number } | undefined
  /** Calls that were answered with `failWith`. */
  failures = 0
  /** Calls without the token, or that are no text message. */
  readonly refused: string[] = []

  readonly #server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => (body += text)).on('end', () => {
      const { status, answer } = this.#answer(request.url ?? '', request.headers.authorization, body)
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })
  })

  static async start(): Promise<FakeGraph> {
    const graph = new FakeGraph()
    graph.#server.listen(0, '127.0.0.1')
    await once(graph.#server, 'listening')
    return graph
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v24.0`
  }

  textsTo(to: string): string[] {
    return this.sent.filter(message => message.to === to).map(({ text }) => text)
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }

  #answer(path: string, authorization: string | undefined, body: string): { status: number; answer: object } {
    const phoneNumberId = /^\/v24\.0\/(\d+)\/messages$/.exec(path)?.[1]
    if (authorization !== `Bearer ${ACCESS_TOKEN}`) {
      this.refused.push(`${path}: ${authorization}`)
      return { status: 401, answer: { error: { message: 'Invalid OAuth access token', type: 'OAuthException', code: 190 } } }
    }
    const message = JSON.parse(body) as { messaging_product?: string; to?: string; type?: string; text?: { body?: string } }
    if (!phoneNumberId || message.messaging_product !== 'whatsapp' || !message.to || message.type !== 'text' || !message.text?.body) {
      this.refused.push(`${path}: ${body}`)
      return { status: 400, answer: { error: { message: 'Invalid parameter', code: 100 } } }
    }
    if (this.failWith) {
      this.failures++
      const { status, code = status } = this.failWith
      return { status, answer: { error: { message: 'as the test wants it', code } } }
    }
    this.sent.push({ phoneNumberId, to: message.to, text: message.text.body, at: Date.now() })
    const answer = { messaging_product: 'whatsapp', contacts: [{ input: message.to, wa_id: message.to }], messages: [{ id: `wamid.out.${this.sent.length}` }] }
    return { status: 200, answer }
  }
}
