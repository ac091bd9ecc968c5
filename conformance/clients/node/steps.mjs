// What the programs here share: they carry out named steps, each bounded in time, and print one JSON line a step.
//
// The first line is {"plan": [names]}; then {"name", "ok", "error"} for each step, in the plan's order, or
// {"name", "skipped"} with the reason.
import { randomBytes } from 'node:crypto'
import { subscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import tls from 'node:tls'

const STEP_TIMEOUT_MS = 30_000
const LONGEST_REASON = 400

function print (line) {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

function reasonOf (error) {
  const causes = [error, ...(error?.errors ?? []), error?.cause].filter(Boolean)
  const texts = causes.map(each => [each.apiId, each.type, each.message ?? String(each)].filter(Boolean).join(' '))
  return texts.join('; ').replace(/\s+/g, ' ').slice(0, LONGEST_REASON) || 'failed without a message'
}

/** Fails when `promise` takes longer than `milliseconds`. */
export async function within (milliseconds, promise, what) {
  let timer
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${milliseconds / 1000} s`)), milliseconds)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Waits until `condition()` gives something true and returns it; fails after `milliseconds`. */
export async function until (condition, what, milliseconds = 20_000) {
  const deadline = Date.now() + milliseconds
  for (;;) {
    const found = await condition()
    if (found) return found
    if (Date.now() > deadline) throw new Error(`${what}: not within ${milliseconds / 1000} s`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

const sockets = new Set()

function remember (socket) {
  sockets.add(socket)
  socket.on('close', () => sockets.delete(socket))
  return socket
}

subscribe('net.client.socket', ({ socket }) => remember(socket))
// Sockets of TLS are not told of there.
const { connect } = tls
tls.connect = (...options) => remember(connect(...options))
syncBuiltinESMExports()

/** The way in, as variables of the environment tell it: undefined in plaintext, else with a login or a certificate. */
export const access = process.env.WALK_CA && {
  tls: {
    ca: [readFileSync(process.env.WALK_CA, 'utf8')],
    ...(process.env.WALK_KEY && {
      cert: readFileSync(process.env.WALK_CERTIFICATE, 'utf8'),
      key: readFileSync(process.env.WALK_KEY, 'utf8')
    })
  },
  login: process.env.WALK_USER && { username: process.env.WALK_USER, password: process.env.WALK_PASSWORD }
}

/** A user of whom ACLs are asked; the walk's own is asked for nothing. */
export const guest = { username: 'guest', password: 'guest' }

/** A step for a broker with an authorizer; it is left out in plaintext. */
export function whenSecured (step) {
  return access ? step : 'the broker has no authorizer; the suites by SASL_SSL and mTLS have'
}

/** A step for a walk that has logged in; it is left out otherwise. */
export function whenLoggedIn (step) {
  return access?.login ? step : 'it takes a login; the suite by SASL_SSL has one'
}

/** Breaks every connection that a client has open here, as a network would. */
export function cutConnections () {
  for (const socket of sockets) socket.destroy(new Error('cut'))
}

/** A name that no other run has used. */
export function unique (prefix) {
  return `${prefix}-${randomBytes(6).toString('hex')}`
}

/**
 * Carries out `steps` in order: an object of name to async function, or to a string, why the step is left out.
 * Ends the process.
 */
export async function walk (steps) {
  // What a client throws out of its own timers must not end the walk; it explains a step that fails.
  let stray
  process.on('uncaughtException', error => { stray = error })
  process.on('unhandledRejection', error => { stray = error })

  print({ plan: Object.keys(steps) })
  for (const [name, step] of Object.entries(steps)) {
    if (typeof step === 'string') {
      print({ name, skipped: step })
      continue
    }
    stray = undefined
    try {
      await within(STEP_TIMEOUT_MS, step(), name)
      print({ name, ok: true, error: '' })
    } catch (error) {
      print({ name, ok: false, error: reasonOf(error) + (stray ? `; meanwhile ${reasonOf(stray)}` : '') })
    }
  }
  process.exit(0)
}
