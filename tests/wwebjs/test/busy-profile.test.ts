// Backups of a profile that Chromium writes to without pause.
import { join } from 'node:path'
import type { SaveResult } from 'pannier'
import { HardenedRemoteAuth, PannierStore, restoreDir } from 'pannier/wwebjs'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { serveBusyPage, type Found } from '../src/busy-page.js'
import { chromium, launchOptions } from '../src/chromium.js'
import { useSetting } from '../src/setting.js'
import { library, puppeteer, type Browser, type Page } from '../src/versions.js'

const BACKUPS = process.env['PANNIER_SOAK'] ? 200 : 25
const STOCK_BACKUPS = 4

const here = useSetting()
let page: { url: string; close: () => void }
const browsers: Browser[] = []

beforeAll(async () => {
  page = await serveBusyPage()
})
afterAll(() => page?.close())
// Before the folder of the test goes.
beforeEach(() => async () => {
  for (const browser of browsers.splice(0)) await browser.close()
})

async function browse(userDataDir: string): Promise<{ browser: Browser; tab: Page }> {
  const browser = await puppeteer('1.34.7').launch({ ...launchOptions, userDataDir })
  browsers.push(browser)
  const [tab] = await browser.pages()
  if (!tab) throw new Error('a browser without a page')
  await tab.goto(page.url)
  return { browser, tab }
}

describe.skipIf(!chromium)('a profile that is written to without pause', () => {
  // whatsapp-web.js #3375, #2530, #3330: backups of a live profile failed, or were stored and did not restore.
  test(`${BACKUPS} backups: every stored one restores, and none fails with an exception`, async () => {
    const errors: Error[] = []
    const client = { options: { puppeteer: {} }, emit: () => true, pupBrowser: undefined as Browser | undefined }
    const auth = new HardenedRemoteAuth({
      store: new PannierStore(here.pannier), clientId: 'busy', dataPath: here.dataPath, onError: error => errors.push(error),
    })
    auth.setup(client)
    await auth.beforeBrowserInitialized()
    const { browser, tab } = await browse(auth.userDataDir)
    client.pupBrowser = browser
    await tab.evaluate('void window.work()')
    await expect.poll(() => tab.evaluate<number>('window.count')).toBeGreaterThan(50)

    const stored: { result: SaveResult; atLeast: number }[] = []
    for (let i = 0; i < BACKUPS; i++) {
      const atLeast = await tab.evaluate<number>('window.count')
      const [result, same] = await Promise.all([auth.backup(), auth.backup()])
      expect(same, 'a second call while one is going on').toBe(result)
      if (!result) continue
      stored.push({ result, atLeast })
      // Only the newest generations are kept: this one now, to look at it later.
      await restoreDir(here.pannier, auth.sessionName, join(here.work, `restored-${i}`))
    }
    const written = await tab.evaluate<number>('window.count')
    await browser.close()
    await auth.destroy()

    const states: Found[] = []
    for (let i = 0; i < BACKUPS; i++) {
      const backup = stored[i]
      if (!backup) break
      const restored = await browse(join(here.work, `restored-${i}`))
      const found = await restored.tab.evaluate<Found>('window.check()')
      // It has been read: there is nothing to close in order.
      restored.browser.process()?.kill('SIGKILL')
      expect(found.wrong, `backup ${i}`).toEqual([])
      expect(found.count, `backup ${i}: nothing that was written before it is missing`).toBeGreaterThanOrEqual(backup.atLeast)
      states.push(found)
    }
    console.log(`${stored.length} of ${BACKUPS} backups stored and restored, ${errors.length} reported as failed, while ${written} transactions were written`)
    expect(stored.length + errors.length).toBe(BACKUPS)
    // The stock class loses up to half.
    expect(stored.length).toBeGreaterThanOrEqual(Math.ceil(BACKUPS * 0.9))
    expect(states.at(-1)?.stored).toBeGreaterThan(0)
  }, BACKUPS * 12_000)

  test('what the stock class stores of it is whole as an archive; how often it fails, for comparison', async () => {
    const { RemoteAuth } = library('1.34.7')
    const { dataPath } = here
    const auth = new RemoteAuth({ clientId: 'stock', dataPath, store: new PannierStore(here.pannier, { dataPath, saveErrors: 'throw' }), backupSyncIntervalMs: 60_000 })
    auth.setup({ options: { puppeteer: {} }, emit: () => {} })
    await auth.beforeBrowserInitialized()
    const { browser, tab } = await browse(auth.userDataDir)
    await tab.evaluate('void window.work()')
    await expect.poll(() => tab.evaluate<number>('window.count')).toBeGreaterThan(50)
    let stored = 0
    let unpacked = 0
    let good = 0
    for (let i = 0; i < STOCK_BACKUPS; i++) {
      const saved = await auth.storeRemoteSession().then(() => true, () => false)
      if (!saved) continue
      stored++
      await restoreDir(here.pannier, 'RemoteAuth-stock', join(here.work, `stock-${i}`)).then(() => unpacked++)
      const { tab: restored, browser: second } = await browse(join(here.work, `stock-${i}`))
      const found = await restored.evaluate<Found>('window.check()').catch(() => undefined)
      second.process()?.kill('SIGKILL')
      if (found?.wrong.length === 0 && found.count > 0) good++
    }
    await browser.close()
    console.log(`stock RemoteAuth 1.34.7: ${stored} of ${STOCK_BACKUPS} backups did not fail, ${good} of those restore`)
    expect(unpacked).toBe(stored)
  }, 120_000)
})
