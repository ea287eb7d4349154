// Generates src/gen from ../../proto with buf and ts-proto; needs no protoc and no network.
// `--check` generates elsewhere and fails if the committed code differs.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const target = join(root, 'src/gen')
const check = process.argv.includes('--check')
const out = check ? mkdtempSync(join(tmpdir(), 'pannier-gen-')) : target

const template = {
  version: 'v2',
  plugins: [
    {
      local: [process.execPath, join(root, 'node_modules/ts-proto/protoc-gen-ts_proto')],
      out,
      opt: [
        'env=node',
        'outputServices=grpc-js',
        'esModuleInterop=true',
        'importSuffix=.js',
        'oneof=unions-value',
        'useDate=true',
        'forceLong=bigint',
        'snakeToCamel=keys',
        'useOptionals=none',
        'unrecognizedEnum=true',
        'outputIndex=false',
        'outputJsonMethods=false',
        'outputPartialMethods=true',
      ],
    },
  ],
}

function files(dir) {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => relative(dir, join(entry.parentPath, entry.name)))
    .sort()
}

if (!check) rmSync(target, { recursive: true, force: true })
execFileSync(
  process.execPath,
  [join(root, 'node_modules/@bufbuild/buf/bin/buf'), 'generate', '--template', JSON.stringify(template), join(root, '../../proto')],
  { stdio: 'inherit', cwd: root },
)

if (check) {
  const fresh = files(out)
  const kept = files(target)
  const stale = [...new Set([...fresh, ...kept])].filter(
    name => !fresh.includes(name) || !kept.includes(name) || readFileSync(join(out, name), 'utf8') !== readFileSync(join(target, name), 'utf8'),
  )
  rmSync(out, { recursive: true, force: true })
  if (stale.length > 0) {
    console.error(`src/gen is not current (run \`npm run generate\`): ${stale.join(', ')}`)
    process.exit(1)
  }
  console.log(`src/gen is current (${fresh.length} files)`)
}
