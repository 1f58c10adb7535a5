// Keeps servers that ask for no address on the loopback address. Preload it: node --require ./bind-local.cjs …
const net = require('node:net');
const listen = net.Server.prototype._listen2;
net.Server.prototype._listen2 = function (address, port, type, ...rest) {
  if (!address && typeof port === 'number' && port >= 0) {
    address = '127.0.0.1';
    type = 4;
  }
  return listen.call(this, address, port, type, ...rest);
};
