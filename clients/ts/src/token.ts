// The token a client shows. From a file it is read again, so that it can be replaced while the bot runs.

import { readFileSync } from 'node:fs'

/** How old what was read may be. */
const FRESH_MS = 1000

/** A token, or none, as it is now. */
export class Token {
  #value: string | undefined
  #readAt = 0

  private constructor(value: string | undefined, private readonly file?: string) {
    this.#value = value
  }

  /** `token` itself, or what the file holds. @throws TypeError when it is no token. */
  static of(token: string | undefined, file: string | undefined): Token {
    if (token !== undefined) return new Token(checked('connect: token', token))
    if (file === undefined || file === '') return new Token(undefined)
    const source = new Token(undefined, file)
    source.#read()
    return source
  }

  /** What to show now. */
  get value(): string | undefined {
    if (this.file !== undefined && Date.now() - this.#readAt > FRESH_MS) this.#readAgain()
    return this.#value
  }

  /** Whether another one than `shown` is there now: then what was refused is worth another try. */
  isOther(shown: string | undefined): boolean {
    if (this.file !== undefined) this.#readAgain()
    return this.#value !== shown
  }

  #read(): void {
    const file = this.file ?? ''
    let text: string
    try {
      text = readFileSync(file, 'utf8').trim()
    } catch (cause) {
      throw new TypeError(`pannier: the token file ${file} cannot be read: ${(cause as Error).message}`, { cause })
    }
    this.#value = checked(`pannier: the token file ${file}`, text)
    this.#readAt = Date.now()
  }

  /** While it is being replaced, the file may not be there, or not whole: then the old one is still the best there is. */
  #readAgain(): void {
    try {
      this.#read()
    } catch {
      this.#readAt = Date.now()
    }
  }
}

function checked(where: string, token: string): string {
  if (typeof token === 'string' && /^[\x21-\x7e]+$/.test(token)) return token
  throw new TypeError(`${where} must be one token as \`pannier tokens add\` printed it (not the sidecar's own file, which holds hashes)`)
}
