// What README and docs show is what people copy: it compiles against the built package, and what can be run by itself is run.
import { execFile, execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Sidecar } from '../../baileys/src/sidecar.js'
import { type Block, blocksOf, compile, nameOf, PAGES } from '../src/docs/blocks.js'

const blocks = PAGES.flatMap(blocksOf)
const typescript = blocks.filter(({ language }) => language === 'ts')
/** These need a phone that scans a code; the bots among them are run in first-steps, in tests/baileys and as examples. */
const needsWhatsApp = ({ code }: Block) => /baileys|whatsapp-web\.js|usePannierAuthState|snapshotDir/.test(code)
/** These need a sidecar on another machine, with tokens and certificates: clients/ts/tests/access.test.ts has one. */
const needsNetwork = ({ code }: Block) => code.includes('sidecar.internal')

let sidecar: Sidecar
let folder: string
let modules: string

beforeAll(async () => {
  sidecar = await Sidecar.start()
  folder = await mkdtemp(join(tmpdir(), 'docs-'))
})
afterAll(async () => {
  await sidecar?.stop()
  await rm(folder, { recursive: true, force: true })
})

test('every block is TypeScript, Python, a shell, a file of settings, or plain text', () => {
  expect(typescript.length).toBeGreaterThan(15)
  // Clients in other languages have a page of their own; its C++ is from tests/cpp, which is compiled and run.
  expect(blocks.filter(({ page, language }) => !(page === 'docs/other-languages.md' && language === 'cpp') && !['ts', 'python', 'sh', 'toml', 'json', 'yaml', 'text', ''].includes(language)).map(nameOf)).toEqual([])
})

// The programs of clients/python's README are run by its own tests.
test('every block of Python is Python', () => {
  const python = blocks.filter(({ language }) => language === 'python')
  expect(python.length).toBeGreaterThan(3)
  for (const { code } of python) execFileSync('python3', ['-c', 'import ast, sys; ast.parse(sys.stdin.read())'], { input: code, timeout: 10_000 })
})

test('every block of TypeScript compiles', async () => {
  modules = await compile(typescript)
})

test.each(typescript.filter(block => !needsWhatsApp(block) && !needsNetwork(block)).map(block => [nameOf(block), block] as const))('%s runs', async name => {
  const program = `
    await import(${JSON.stringify(pathToFileURL(join(modules, 'context.mjs')).href)})
    const { block } = await import(${JSON.stringify(pathToFileURL(join(modules, `${name}.mjs`)).href)})
    await block()
    process.exit()`
  const env = { ...process.env, PANNIER_ADDRESS: sidecar.address }
  await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], { cwd: folder, env, timeout: 30_000 })
})
