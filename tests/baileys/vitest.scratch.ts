import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['scratch/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // The machines that run this have two cores: one file at a time keeps the deadlines honest.
    fileParallelism: false,
    // libsignal prints a line for every session it closes; only what failed should be read.
    silent: 'passed-only',
    // Baileys leaves queries behind when its socket closes; anything else that nobody caught fails the run.
    onUnhandledError: error => error.message !== 'Connection Closed',
  },
})
