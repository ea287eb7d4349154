// An echo bot that is never paired twice: its session is in Pannier, and it lives through lost connections, a sidecar that is
// killed, a take-over by another process, and a log-out.
import { setTimeout as sleep } from 'node:timers/promises'
import makeWASocket, { type WAMessage, type WASocket } from 'baileys'
import { connect } from 'pannier'
import { usePannierAuthState, type PannierAuthState } from 'pannier/baileys'
import { pino } from 'pino'
import qrcode from 'qrcode-terminal'

const SESSION = process.env.SESSION ?? 'echo'
const logger = pino({ level: process.env.LOG_LEVEL ?? 'error' })
const pannier = await connect() // waits 30 s for the sidecar, then says what to do

let stopping: Promise<void> | undefined
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // Not needed for safety: it lets the next process in at once, without waiting for the lease to end. npm and Ctrl-C may both send it.
  process.on(signal, () => void (stopping ??= pannier.close().then(() => process.exit())))
}

let pause = 1_000
for (;;) {
  await once().catch(error => console.error('could not start:', error))
  await sleep(pause)
  pause = Math.min(2 * pause, 60_000)
}

/** One connection to WhatsApp, from its opening to its end. All that can fail is awaited in here, so that nothing ends the process. */
async function once(): Promise<void> {
  const auth = await usePannierAuthState(pannier, SESSION) // another process has the session: waits for it
  try {
    const leave = sendingLeave(auth)
    const sock = makeWASocket({ auth: auth.state, logger })
    sock.ev.on('creds.update', auth.saveCreds)
    sock.ev.on('messages.upsert', ({ messages }) => {
      for (const message of messages) echo(sock, message, leave).catch(error => console.error('could not answer:', error))
    })
    const why = await new Promise<Error | undefined>(ended => {
      auth.on('fatal', ended) // the session is another's now, or was set back: do not go on with what is in memory
      sock.ev.on('connection.update', ({ connection, lastDisconnect, qr }) => {
        if (qr) qrcode.generate(qr, { small: true })
        if (connection === 'open') {
          console.log('connected')
          pause = 1_000
        }
        if (connection === 'close') ended(lastDisconnect?.error)
      })
    })
    console.log('the connection ended:', why?.message)
    await sock.end(why)
    // Only a log-out (401) may remove the session. It is an archive then, for 7 days, and the next connection shows a new code.
    if (await auth.onLoggedOut(why)) console.log('logged out')
  } finally {
    await auth.close()
  }
}

async function echo(sock: WASocket, { key, message }: WAMessage, leave: () => Promise<void>): Promise<void> {
  const text = message?.conversation ?? message?.extendedTextMessage?.text
  if (key.fromMe || !key.remoteJid || !text) return
  await leave()
  await sock.sendMessage(key.remoteJid, { text })
}

/** Waits while the lease is not renewed: another process may come, and two that send with one session break it. */
function sendingLeave(auth: PannierAuthState): () => Promise<void> {
  let now = Promise.resolve()
  let resume = (): void => {}
  auth.on('suspend', () => {
    console.log('suspended: nothing is sent until the sidecar is heard of')
    now = new Promise(resolve => (resume = resolve))
  })
  auth.on('resume', () => {
    console.log('resumed')
    resume()
  })
  return () => now
}
