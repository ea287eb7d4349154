// See scripts/first-steps. Ends with 0 only if everything happened.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startFakeWhatsApp } from '../../baileys/src/fake-whatsapp.js'
import { firstSample } from '../../baileys/src/readme-bot.js'
import { sidecarBinary } from '../../baileys/src/sidecar.js'
import { dialling, phone } from './local-whatsapp/environment.js'
import { pack } from './tarball.js'

const README = readFileSync(fileURLToPath(new URL('../../../README.md', import.meta.url)), 'utf8')
const cold = process.argv.includes('--cold')
const home = realpathSync(mkdtempSync(join(tmpdir(), 'first-steps-')))
const project = join(home, 'my-bot')
const began = performance.now()
const cleanup: (() => unknown)[] = [() => rmSync(home, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })]

/** Of a person who has just arrived: nothing but PATH, and where a Valkey is, which `make run` finds out. */
const env: Record<string, string> = {
  PATH: process.env['PATH'] ?? '', HOME: home, XDG_RUNTIME_DIR: join(home, 'run'), LANG: 'C.UTF-8',
  PANNIER_VALKEY_SERVER: process.env['PANNIER_VALKEY_SERVER'] ?? '',
  ...(cold ? {} : { npm_config_cache: execFileSync('npm', ['config', 'get', 'cache'], { encoding: 'utf8' }).trim(), npm_config_prefer_offline: 'true' }),
}

async function firstSteps(): Promise<void> {
  for (const folder of [project, join(home, 'run')]) mkdirSync(folder, { mode: 0o700 })
  const tarball = await step('npm pack', () => pack(home))
  say(`  ${tarball.files.length} files, ${kB(tarball.size)} packed, ${kB(tarball.unpackedSize)} unpacked`)
  const binary = sidecarBinary()
  if (!binary) throw new Error('no pannier binary: cargo build, or set PANNIER_BIN')
  await step('pannier serve, on a Valkey of its own, at its default socket', () => serve(binary))

  // The block of the README, line by line; its last one runs the bot.
  const lines = (/## A first bot[^]*?```sh\n([^]*?)```/.exec(README)?.[1] ?? '').split('\n').map(line => line.replace(/ +#.*/, '')).filter(Boolean)
  const runBot = lines.pop() ?? ''
  if (!runBot.endsWith(' bot.mts') || lines.length !== 2) throw new Error(`the README's commands have changed: ${[...lines, runBot].join('; ')}`)
  for (const line of lines) {
    const command = line.replace('/path/to/pannier/clients/ts', tarball.path)
    await step(line, () => execFileSync('sh', ['-c', command], { cwd: project, env, stdio: ['ignore', 'ignore', 'inherit'], timeout: 300_000 }))
  }
  const entries = ['pannier', 'pannier/baileys', 'pannier/wwebjs'].map(name => `await import('${name}')`).join(';')
  execFileSync('node', ['--input-type=module', '-e', entries], { cwd: project, env, timeout: 30_000 })

  const wa = await startFakeWhatsApp()
  cleanup.push(() => wa.close())
  const peer = wa.addPeer('15550001111@s.whatsapp.net')
  writeFileSync(join(project, 'bot.mts'), await firstSample('README.md'))
  const first = bot(runBot, dialling(wa, project))
  cleanup.push(phone(wa, () => first.output))
  await step(`${runBot}: the README's first bot is paired`, () => until(first, () => wa.counters.pairings === 1))
  const pannier = (...args: string[]) => execFileSync(binary, args, { env, encoding: 'utf8', timeout: 30_000 })
  await step('pannier sessions show bot-1', () => until(first, () => /creds/.test(pannier('sessions', 'show', 'bot-1'))))
  if (!pannier('sessions', 'list').includes('bot-1')) throw new Error('sessions list does not show bot-1')
  say(`from an empty home to a paired bot: ${seconds(began)}`)
  // It does not connect again by itself. A second for what it has not awaited.
  await new Promise(resolve => setTimeout(resolve, 1000))
  await first.kill()

  writeFileSync(join(project, 'bot.mts'), await firstSample('clients/ts/README.md'))
  const whole = bot(runBot, dialling(wa, project))
  await step('the whole bot of clients/ts, with the same session (when the lease of the first has run out)', () => until(whole, () => wa.counters.logins === 1))
  await step('ping', async () => {
    await peer.send('ping')
    if ((await peer.nextMessage({ timeoutMs: 20_000 })).text !== 'pong') throw new Error('it did not answer pong')
  })
  if (wa.counters.pairings !== 1 || wa.errors.length > 0) throw new Error(`${wa.counters.pairings} pairings, ${wa.errors.join()}`)
  await whole.kill()
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

const kB = (bytes: number): string => `${Math.round(bytes / 1000)} kB`
const seconds = (since: number): string => `${((performance.now() - since) / 1000).toFixed(1)} s`

async function step<T>(what: string, work: () => T | Promise<T>): Promise<T> {
  const start = performance.now()
  const result = await work()
  say(`${seconds(start).padStart(7)}  ${what}`)
  return result
}

/** What `make run` runs. Resolves when it answers. */
async function serve(binary: string): Promise<void> {
  const log = openSync(join(home, 'sidecar.log'), 'a')
  const child = spawn(binary, ['serve'], { cwd: home, env, stdio: ['ignore', log, log] })
  closeSync(log)
  const gone = new Promise(resolve => child.once('exit', resolve))
  cleanup.push(async () => {
    child.kill('SIGTERM')
    await gone
  })
  process.once('exit', () => child.kill('SIGKILL'))
  for (const end = Date.now() + 30_000; ; ) {
    if (child.exitCode !== null || Date.now() > end) throw new Error(`the sidecar does not serve:\n${readFileSync(join(home, 'sidecar.log'), 'utf8')}`)
    try {
      execFileSync(binary, ['sessions', 'list'], { env, stdio: 'ignore', timeout: 10_000 })
      return
    } catch {
      await new Promise(resolve => setTimeout(resolve, 100))
    }
  }
}

interface Bot {
  readonly output: string
  readonly child: ChildProcess
  kill(): Promise<void>
}

/** As a process group of its own: npx, the shell, the bot. */
function bot(command: string, more: Record<string, string>): Bot {
  const child = spawn('sh', ['-c', command], { cwd: project, env: { ...env, ...more }, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const gone = new Promise(resolve => child.once('close', resolve))
  const made = {
    child, output: '',
    async kill() {
      try {
        process.kill(-(child.pid ?? Number.NaN), 'SIGKILL')
      } catch {
        // It is gone.
      }
      await gone
    },
  }
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (made.output += text))
  cleanup.push(() => made.kill())
  process.once('exit', () => void made.kill())
  return made
}

async function until(running: Bot, holds: () => boolean): Promise<void> {
  for (const end = Date.now() + 120_000; !holds(); ) {
    if (Date.now() > end || running.child.exitCode) throw new Error(`waited in vain; it said:\n${running.output}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

let failed: unknown
try {
  await firstSteps()
} catch (error) {
  failed = error
  console.error(error)
}
for (const clean of cleanup.reverse()) await Promise.resolve().then(clean).catch(console.error)
process.exit(failed ? 1 : 0)
