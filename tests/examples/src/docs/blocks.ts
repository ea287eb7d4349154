// The code blocks of README and docs, as modules that can be compiled and run.
import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url))
const HERE = fileURLToPath(new URL('.', import.meta.url))
/** From here `pannier` is found as a user finds it, compiled. */
const FOLDER = fileURLToPath(new URL('../../node_modules/.docs', import.meta.url))
/** What the examples have installed. */
const PACKAGES = { baileys: 'baileys-echo', 'whatsapp-web.js': 'whatsapp-web' }

export interface Block {
  /** `docs/schedule.md`. */
  page: string
  line: number
  /** '' where none is given. */
  language: string
  code: string
}

export const PAGES = ['README.md', 'clients/ts/README.md', ...readdirSync(join(ROOT, 'docs')).filter(name => name.endsWith('.md')).map(name => `docs/${name}`)]

export function blocksOf(page: string): Block[] {
  const text = readFileSync(join(ROOT, page), 'utf8')
  return [...text.matchAll(/^```(\S*)\n([^]*?)^```$/gm)].map(({ index, 1: language = '', 2: code = '' }) => ({
    page, language, code, line: text.slice(0, index).split('\n').length + 1,
  }))
}

/** A block's module has its name: `docs-schedule.md-14`. */
export const nameOf = ({ page, line }: Block): string => `${page.replaceAll('/', '-')}-${line}`

/**
 * The block as the body of a function, so that it may `return`; its imports stay outside. Lines stay where they are, so that the compiler
 * names those of the page, less where the block begins.
 */
function moduleOf({ code }: Block): string {
  const imports: string[] = []
  const body = code.replace(/^import .*$/gm, line => {
    imports.push(line)
    return ''
  })
  return `${imports.join(';')};export async function block() {${body}\n}\n`
}

/** Compiles blocks against the built package; throws what the compiler says. Gives the folder of the modules, `<name>.mjs`. */
export async function compile(blocks: Block[]): Promise<string> {
  rmSync(FOLDER, { recursive: true, force: true })
  mkdirSync(join(FOLDER, 'node_modules'), { recursive: true })
  for (const [name, example] of Object.entries(PACKAGES)) symlinkSync(join(ROOT, 'examples', example, 'node_modules', name), join(FOLDER, 'node_modules', name))
  for (const block of blocks) writeFileSync(join(FOLDER, `${nameOf(block)}.mts`), moduleOf(block))
  for (const name of ['context.d.ts', 'context.mjs']) writeFileSync(join(FOLDER, name), readFileSync(join(HERE, name)))
  const compilerOptions = {
    strict: true, noUncheckedIndexedAccess: true, target: 'es2022', module: 'nodenext', lib: ['es2023', 'esnext.disposable'], types: ['node'], skipLibCheck: true,
  }
  writeFileSync(join(FOLDER, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.mts', 'context.d.ts'] }))
  try {
    await promisify(execFile)(process.execPath, [join(FOLDER, '../typescript/bin/tsc'), '-p', FOLDER], { cwd: FOLDER, timeout: 110_000 })
  } catch (error) {
    throw new Error(`blocks do not compile (page-line of the block, line in it):\n${(error as { stdout?: string }).stdout}`)
  }
  return FOLDER
}
