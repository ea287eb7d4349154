// The bot on whatsapp-web.js, in a real Chromium, on a page of ours in the place of web.whatsapp.com.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Pannier } from 'pannier'
import puppeteer, { type Browser, type Page } from 'puppeteer-core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { connectTo } from '../../baileys/src/pannier-store.js'
import { Sidecar } from '../../baileys/src/sidecar.js'
import { chromium } from '../../wwebjs/src/chromium.js'
import { Example, EXAMPLES } from '../src/example.js'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

interface Bot {
  example: Example
  browser: Browser
  /** In the page. */
  evaluate<T>(code: string): Promise<T>
}

let sidecar: Sidecar
let pannier: Pannier
let folder: string
let starts = 0
const bots: Bot[] = []

describe.skipIf(!chromium)('whatsapp-web', () => {
  beforeEach(async () => {
    sidecar = await Sidecar.start({ args: ['--bulk-rate', '1GiB'] })
    pannier = await connectTo(sidecar)
    folder = await mkdtemp(join(tmpdir(), 'pannier-wwebjs-'))
    mkdirSync(join(folder, 'pages'))
    const page = readFileSync(here('../../wwebjs/src/whatsapp-web.html'), 'utf8')
    writeFileSync(join(folder, 'pages/2.3000.0.html'), `${page}\n<script>${readFileSync(here('../src/local-whatsapp/chats.js'), 'utf8')}</script>`)
  })
  afterEach(async context => {
    if (context.task.result?.state === 'fail') console.log(bots.map(({ example }) => example.output))
    for (const bot of bots.splice(0)) await kill9(bot)
    await pannier?.close()
    await sidecar?.stop()
    await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  })

  /** Where nothing of an earlier one is on the disk. */
  async function start(): Promise<Bot> {
    const example = new Example('whatsapp-web', {
      env: {
        PANNIER_ADDRESS: sidecar.address, CHROMIUM: chromium ?? '', DATA_PATH: join(folder, `data-${++starts}`),
        WA_PAGES: join(folder, 'pages'), WA_PROGRAM: join(EXAMPLES, 'whatsapp-web'), NODE_OPTIONS: `--import ${here('../src/local-whatsapp/page.mjs')}`,
      },
    })
    const browserWSEndpoint = await example.says(/the browser is at (\S+)/, 90_000)
    const browser = await puppeteer.connect({ browserWSEndpoint })
    const page = (await browser.pages())[0] as Page
    const bot = { example, browser, evaluate: <T>(code: string) => page.evaluate(code) as Promise<T> }
    bots.push(bot)
    return bot
  }
  /** Both the bot and its browser, which is in a process group of its own. */
  async function kill9({ example, browser }: Bot): Promise<void> {
    await example.kill9()
    await browser.close().catch(() => undefined)
  }
  const token = (bot: Bot) => bot.evaluate<{ token: string | null }>('window.identity()').then(({ token }) => token)
  const sent = (bot: Bot) => bot.evaluate<{ to: string; text: string }[]>('window.sent')
  async function pongs(bot: Bot, id: string): Promise<void> {
    const before = (await sent(bot)).length
    await bot.evaluate(`window.receive('${id}', 'ping')`)
    await expect.poll(() => sent(bot), { timeout: 10_000 }).toHaveLength(before + 1)
    expect((await sent(bot)).at(-1)).toEqual({ to: '15550001111@c.us', text: 'pong', quoted: id })
  }
  async function paired(): Promise<Bot> {
    const bot = await start()
    await bot.example.says(/█/)
    await bot.evaluate('window.pair()')
    await bot.example.says(/ready/)
    return bot
  }

  test('it shows a code, answers each ping once, and is the same bot after SIGTERM and the loss of its folder', async () => {
    const first = await paired()
    await pongs(first, '3A01')
    await first.evaluate(`window.receive('3A01', 'ping'); window.receive('3A02', 'hello')`)
    await pongs(first, '3A03')
    const who = await token(first)
    expect(who).toMatch(/^[0-9a-f]{64}$/)
    await first.example.stop()
    expect(first.example.output).toMatch(/backup: saved\n[^]*stopped\n$/)

    const second = await start()
    await second.example.says(/ready/)
    expect(second.example.output).not.toMatch(/█/)
    expect(await token(second)).toBe(who)
    await second.evaluate(`window.receive('3A03', 'ping')`)
    await pongs(second, '3A04')
  })

  test('killed with -9 after its first backup, it is ready again elsewhere', { timeout: 180_000 }, async () => {
    const first = await paired()
    const who = await token(first)
    await first.example.says(/backup: saved/, 60_000)
    await kill9(first)
    const second = await start() // waits for the lease of the one that was killed
    await second.example.says(/ready/)
    expect([await token(second), second.example.output.includes('█')]).toEqual([who, false])
    await pongs(second, '3A05')
  })

  test('when another browser takes over it ends, and the session stays; logged out on the phone it shows a new code', async () => {
    const first = await paired()
    const who = await token(first)
    await first.example.says(/backup: saved/, 60_000)
    await first.evaluate('window.conflict()').catch(() => undefined)
    await first.example.says(/disconnected: CONFLICT[^]*stopped\n/)
    await expect.poll(() => first.example.running, { timeout: 10_000 }).toBe(false)
    expect((await pannier.blobs.stat('RemoteAuth-ping')).blob).toBeDefined()

    const second = await start()
    await second.example.says(/ready/)
    expect(await token(second)).toBe(who)
    await second.evaluate('window.revoke()').catch(() => undefined)
    await second.example.says(/disconnected: LOGOUT[^]*█/)
    expect((await pannier.blobs.stat('RemoteAuth-ping')).blob).toBeUndefined()
    expect(second.example.running).toBe(true)
    expect(readdirSync(join(folder, `data-${starts}`)).filter(name => name.endsWith('.zip'))).toEqual([])
  })
})
