// `make demo`: why it matters, and that it works. A real, unmodified Baileys bot, logged in to a local fake WhatsApp server, answers
// messages while its sidecar is killed with -9; then the same bot meets a store that was set back by one message, first without
// Pannier's guard, then with it. Ends with 0 only if everything happened as told.
import { connect, type Pannier, StaleStateError } from 'pannier'
import { baileys } from './baileys-versions.js'
import { Bot } from './bot.js'
import { Say } from './demo-say.js'
import { startFakeWhatsApp } from './fake-whatsapp.js'
import { connectTo, pannierStates } from './pannier-store.js'
import { Sidecar, sidecarBinary } from './sidecar.js'
import { badMacs } from './signal-console.js'

const VERSION = '7.0.0-rc14'
const say = new Say(process.stdout)
const cleanup: (() => Promise<unknown>)[] = []

async function demo(): Promise<void> {
  const wa = await startFakeWhatsApp()
  cleanup.push(() => wa.close())
  const anna = wa.addPeer('15550001111@s.whatsapp.net')
  const sidecar = await Sidecar.start()
  cleanup.push(() => sidecar.stop())
  const pannier = await connectTo(sidecar)
  cleanup.push(() => pannier.close())

  const startBot = async (over: Pannier): Promise<Bot> => {
    const bot = await Bot.start({
      version: VERSION,
      url: wa.url,
      openAuthState: pannierStates(over, VERSION),
      onQr: qr => {
        say.line('the bot shows a QR code, its owner scans it')
        wa.scanQr(qr)
      },
      reply: text => `you said: ${text}`,
    })
    cleanup.push(() => bot.stop())
    return bot
  }
  /** Anna writes, the bot answers. */
  const exchange = async (text: string): Promise<number> => {
    const began = performance.now()
    await anna.send(text)
    const answer = await anna.nextMessage({ timeoutMs: 20_000 })
    const took = performance.now() - began
    say.check(answer.text === `you said: ${text}`, `Anna: “${text}”   bot: “${answer.text}”`, took)
    return took
  }

  say.title('1  A bot logs in')
  say.line(`unmodified Baileys ${VERSION} on a local fake WhatsApp server; its state is in Pannier, encrypted, in a real Valkey`)
  const bot = await startBot(pannier)
  say.check(wa.counters.pairings === 1, 'paired, restarted by the server (515), logged in')
  await exchange('hello')

  say.title('2  The sidecar is killed while the bot talks')
  for (const round of [1, 2, 3]) {
    say.line('kill -9 of the sidecar …')
    const back = kill(sidecar, pannier)
    await exchange(`are you there? (${round})`)
    say.line(`serving again ${say.time(await back)} after its restart`)
  }
  say.line('kill -9 of its Valkey …')
  await sidecar.killValkey()
  await exchange('and now?')
  say.check(bot.pairings === 1 && bot.undecryptable.length === 0, 'every message decrypted, no second QR code')

  say.title('3  The store is set back by one message: a restored snapshot, a lost folder')
  const backup = await sidecar.backup()
  await exchange('this one is not in the backup')
  await bot.stop()

  say.line('without a guard, as a store that does not notice (a process that knows nothing of what was acknowledged):')
  const older = await sidecar.startOn(backup)
  cleanup.push(() => older.stop())
  const ignorant = await connect({ address: older.address })
  cleanup.push(() => ignorant.close())
  const failed = badMacs()
  const naive = await startBot(ignorant)
  await anna.send('can you read this?')
  await until(() => naive.undecryptable.length > 0)
  say.check(badMacs() > failed, `the message does not decrypt: ${badMacs() - failed} × Bad MAC. In production this mutes a bot for hours`)
  await naive.stop()

  say.line('with it:')
  const state = await pannierStates(pannier, VERSION)('bot')
  const { revision } = state
  await sidecar.setBack(backup)
  let told: Error | undefined
  state.on('fatal', error => (told ??= error))
  await until(() => told !== undefined)
  say.check(told instanceof StaleStateError, `STALE_STATE: the store is behind revision ${revision}; nothing was decrypted with it`)
  const again = await pannierStates(pannier, VERSION)('bot').then(() => undefined, (error: Error) => error)
  say.check(again instanceof StaleStateError, 'and it does not start on it either: restore the newest, then go on')
}

/** Kills the sidecar and starts it again; how long until it serves, in ms. */
async function kill(sidecar: Sidecar, pannier: Pannier): Promise<number> {
  await sidecar.kill()
  const began = performance.now()
  sidecar.run()
  const probe = await connect({ address: pannier.address })
  const took = performance.now() - began
  await probe.close()
  return took
}

async function until(holds: () => boolean): Promise<void> {
  const end = performance.now() + 20_000
  while (!holds()) {
    if (performance.now() > end) throw new Error('waited 20 s in vain')
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}

if (!sidecarBinary()) {
  console.error('no pannier binary: run it as `make demo`, or build one with `cargo build`')
  process.exit(69)
}
baileys(VERSION)
let broke: unknown
try {
  await demo()
} catch (error) {
  broke = error
}
for (const clean of cleanup.reverse()) await clean().catch(() => undefined)
process.exit(say.end(broke))
