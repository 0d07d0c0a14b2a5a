// The origin of Node: answers with what it is sent, over HTTP and over WebSocket. Prints its port.
import http from "node:http";
import { createRequire } from "node:module";

const { WebSocketServer } = createRequire(process.cwd() + "/")("ws");

const server = http.createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => response.end(Buffer.concat(pieces)));
});
new WebSocketServer({ server, maxPayload: 1 << 24 }).on("connection", (socket) => {
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
