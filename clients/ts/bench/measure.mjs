// How long work takes, and whose processor time it is.
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** User and system time of a process so far, in ms; NaN where there is no /proc. Clock ticks are 100 a second on every Linux that Node runs on. */
function cpuMs(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * 10
  } catch {
    return Number.NaN
  }
}

/** Of `work`, which does `count` of something, for each: µs, and µs of the processors. `env`: of `servers`. */
export async function timed(env, count, work) {
  const before = { node: process.cpuUsage(), valkey: cpuMs(env.valkeyPid), sidecar: cpuMs(env.sidecarPid) }
  const started = performance.now()
  await work()
  const us = ((performance.now() - started) * 1000) / count
  const node = process.cpuUsage(before.node)
  return {
    us,
    node: (node.user + node.system) / count,
    valkey: ((cpuMs(env.valkeyPid) - before.valkey) * 1000) / count,
    sidecar: ((cpuMs(env.sidecarPid) - before.sidecar) * 1000) / count,
  }
}

export const median = list => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]

/** What is kept with results: where they were measured. `load`: of the machine, before. */
export const machine = (env, fsync, load) =>
  ({ cpu: cpus()[0]?.model, cores: cpus().length, load, node: process.version, valkey: env.version, fsync, date: new Date().toISOString() })
