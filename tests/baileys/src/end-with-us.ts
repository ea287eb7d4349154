// Children that must not outlive a test run that breaks off.
import type { ChildProcess } from 'node:child_process'

const running = new Map<ChildProcess, () => number | undefined>()

process.once('exit', () => {
  for (const [child, alsoPid] of running) {
    for (const pid of [() => child.pid, alsoPid]) {
      try {
        const found = pid()
        if (found) process.kill(found, 'SIGKILL')
      } catch {
        // It is gone, or never was.
      }
    }
  }
})

/** Kills the child when this process exits, and then the process that `alsoPid` names, which it may have started. */
export function endWithUs(child: ChildProcess, alsoPid: () => number | undefined = () => undefined): void {
  running.set(child, alsoPid)
  child.once('exit', () => running.delete(child))
}
