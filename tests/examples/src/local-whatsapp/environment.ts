// What a process needs so that its Baileys dials a server of ours, and a phone that scans what it shows.
import { fileURLToPath } from 'node:url'
import type { FakeWhatsApp } from '../../../baileys/src/fake-whatsapp.js'

const hook = fileURLToPath(new URL('dial.mjs', import.meta.url))

/** `program`: the folder of the bot's own modules. */
export function dialling(wa: FakeWhatsApp, program: string): Record<string, string> {
  return { WA_URL: wa.url, WA_AUTHORITY: wa.authority.toString('hex'), WA_PROGRAM: program, NODE_OPTIONS: `--import ${hook}` }
}

/** Scans each code once, as its owner does. `output`: what the bot has printed so far. Returns what ends it. */
export function phone(wa: FakeWhatsApp, output: () => string): () => void {
  const seen = new Set<string>()
  const timer = setInterval(() => {
    for (const [, qr = ''] of output().matchAll(/the phone sees (\S+)\n/g)) {
      if (!seen.has(qr)) wa.scanQr(qr)
      seen.add(qr)
    }
  }, 50)
  return () => clearInterval(timer)
}
