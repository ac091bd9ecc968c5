// Reads frames of MQTT, a line of JSON each, with mqtt-packet; tells what it read and the bytes it makes of that.

import readline from 'node:readline'
import mqttPacket from 'mqtt-packet'

const plain = (key, value) => {
  if (value && value.type === 'Buffer') return { hex: Buffer.from(value.data).toString('hex') }
  return value
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { version, hex } = JSON.parse(line)
  const parser = mqttPacket.parser({ protocolVersion: version })
  const answer = { packets: [] }
  parser.on('packet', packet => { answer.packets.push(packet) })
  parser.on('error', problem => { answer.problem = problem.message })
  try {
    parser.parse(Buffer.from(hex, 'hex'))
    if (!answer.problem) {
      const made = answer.packets.map(packet => mqttPacket.generate(packet, { protocolVersion: version }))
      answer.hex = Buffer.concat(made).toString('hex')
    }
  } catch (problem) {
    answer.problem = problem.message
  }
  process.stdout.write(JSON.stringify(answer, plain) + '\n')
}
