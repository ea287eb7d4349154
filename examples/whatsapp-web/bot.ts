// Answers "ping" on whatsapp-web.js. Its browser profile is backed up to Pannier and comes from there at the next start, on whatever machine.
import { connect } from 'pannier'
import { HardenedRemoteAuth, PannierStore } from 'pannier/wwebjs'
import qrcode from 'qrcode-terminal'
import whatsapp from 'whatsapp-web.js'

const pannier = await connect() // waits 30 s for the sidecar, then says what to do
const client = new whatsapp.Client({
  authStrategy: new HardenedRemoteAuth({
    store: new PannierStore(pannier),
    clientId: process.env.CLIENT_ID ?? 'ping',
    dataPath: process.env.DATA_PATH ?? '.wwebjs_auth',
    onBackup: ({ outcome }) => console.log('backup:', outcome),
    onError: (error, operation) => console.error(`${operation}:`, error), // a backup that failed is tried again at the next
    onLeaseLost: error => stop(1, error.message), // another process has the session now
  }),
  puppeteer: {
    executablePath: process.env.CHROMIUM, // default: the one that puppeteer downloads
    // Else puppeteer ends the browser at once, and there is nothing left to back up.
    handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false,
  },
})

client.on('qr', qr => qrcode.generate(qr, { small: true }))
client.on('ready', () => console.log('ready'))
client.on('message', message => {
  answer(message).catch(error => console.error('could not answer:', error))
})
// Logged out on the phone it shows a new code. Any other end, another browser that took over for one, leaves the session stored.
client.on('disconnected', reason => {
  console.log('disconnected:', reason)
  if (String(reason) !== 'LOGOUT') void stop(1, 'start it again to go on')
})

async function answer(message: whatsapp.Message): Promise<void> {
  if (message.body !== 'ping') return
  // Told again after a reconnect, a message is not answered again.
  if (await pannier.dedup.claimOnce(`message:${message.id._serialized}`)) await message.reply('pong')
}

let stopping: Promise<void> | undefined
function stop(code: number, why: string): Promise<void> {
  console.log('stopping:', why)
  // `destroy` backs up once more, when the browser has written everything, and hands the session over.
  return stopping ??= client.destroy().catch(console.error).then(() => pannier.close()).then(() => {
    console.log('stopped')
    process.exit(code)
  })
}
// npm and Ctrl-C may both send it: once is enough
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop(0, signal))

await client.initialize()
