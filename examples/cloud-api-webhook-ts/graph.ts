// The one call of the Graph API that a bot cannot do without.
import { FailJob } from 'pannier'

/** Errors that pass: too many calls, too many messages, too many to this user. Meta answers some of them with 400. */
const PASSING = new Set([4, 80007, 130429, 131056])

export class Graph {
  readonly url: string
  readonly #accessToken: string

  constructor(url: string, accessToken: string) {
    this.url = url
    this.#accessToken = accessToken
  }

  /** Sends a text; gives the id of the message. Throws FailJob when trying again is of no use. */
  async send(phoneNumberId: string, to: string, body: string): Promise<string> {
    const response = await fetch(`${this.url}/${phoneNumberId}/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.#accessToken}`, 'content-type': 'application/json' },
      body: JSON.stringify({ messaging_product: 'whatsapp', recipient_type: 'individual', to, type: 'text', text: { body } }),
      signal: AbortSignal.timeout(8_000), // less than the worker has to close: a send that is broken off may have gone out all the same
    })
    const answer = await response.json().catch(() => ({})) as { messages?: { id: string }[]; error?: { code: number; message: string } }
    if (response.ok) return answer.messages?.[0]?.id ?? ''
    const why = `Graph API: ${response.status} ${answer.error?.code ?? ''} ${answer.error?.message ?? ''}`
    if (response.status === 400 && !PASSING.has(answer.error?.code ?? 0)) throw new FailJob(why)
    throw new Error(why)
  }
}
