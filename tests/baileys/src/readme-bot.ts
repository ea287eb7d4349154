// The first bot of `clients/ts/README.md`, its very text, compiled by TypeScript and run as a process of its own.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { endWithUs } from './end-with-us.js'
import type { FakeWhatsApp } from './fake-whatsapp.js'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/** The first TypeScript in a text. */
export async function firstSample(readme: string): Promise<string> {
  const text = /```ts\n([^]*?)```/.exec(await readFile(here(`../../../${readme}`), 'utf8'))?.[1]
  if (!text) throw new Error(`${readme} has no sample`)
  return text
}

/** Compiles it, in a folder from which its packages are found. Gives the folder: the result is its `bot.mjs`. */
export async function compiled(sample: string): Promise<string> {
  await mkdir(here('../node_modules/.readme'), { recursive: true })
  const folder = await mkdtemp(here('../node_modules/.readme/bot-'))
  await writeFile(join(folder, 'bot.mts'), sample)
  const options = ['--strict', '--target', 'es2022', '--module', 'nodenext', '--lib', 'es2023,esnext.disposable', '--types', 'node', '--skipLibCheck']
  try {
    await promisify(execFile)(process.execPath, [here('../node_modules/typescript/bin/tsc'), ...options, join(folder, 'bot.mts')], { cwd: folder })
  } catch (error) {
    throw new Error(`the sample does not compile:\n${(error as { stdout?: string }).stdout}`)
  }
  return folder
}

export class ReadmeBot {
  /** All that it has printed. */
  output = ''

  private constructor(private readonly child: ChildProcess, private readonly folder: string) {}

  static async start(wa: FakeWhatsApp, address: string): Promise<ReadmeBot> {
    const folder = await compiled(await firstSample('clients/ts/README.md'))
    const env = { ...process.env, PANNIER_ADDRESS: address, WA_URL: wa.url, WA_AUTHORITY: wa.authority.toString('hex') }
    const child = spawn(process.execPath, ['--import', new URL('readme-bot/start.mjs', import.meta.url).href, 'bot.mjs'], { cwd: folder, env, stdio: 'pipe' })
    endWithUs(child)
    const bot = new ReadmeBot(child, folder)
    const codes = new Set<string>()
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        bot.output += text
        // The owner scans what it shows, once.
        for (const [, qr = ''] of bot.output.matchAll(/scan as a QR code: (\S+)\n/g)) {
          if (!codes.has(qr)) wa.scanQr(qr)
          codes.add(qr)
        }
      })
    }
    return bot
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null
  }

  /** SIGTERM, and how it exited. */
  async stop(): Promise<number | null> {
    if (this.running) {
      const gone = new Promise(resolve => this.child.once('exit', resolve))
      this.child.kill('SIGTERM')
      await gone
    }
    await rm(this.folder, { recursive: true, force: true })
    return this.child.exitCode
  }
}
