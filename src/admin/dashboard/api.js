// Calls of the admin port. The token stays in this tab's session storage and in the Authorization header.

const TOKEN = 'tollgate-token';
const TIMEOUT_MS = 20_000;
const EVENT_CHARS_MAX = 8 * 1024 * 1024;
const SILENCE_MS_MAX = 25_000;

/** An answer that is not a success; its message says what to do. */
export class ApiError extends Error {
  /** @param {number} status 0 if there was no answer. @param {object} [problem] The problem document. */
  constructor(status, message, problem = {}) {
    super(message);
    this.status = status;
    this.problem = problem;
  }
}

/** Says `unauthorized` (with the error as detail) when the token is missing or wrong. */
export const session = new EventTarget();

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export function setToken(token) {
  if (token === null) sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, token);
}

/** GET, with the query's parameters that are not empty. */
export function get(path, query, signal) {
  return call(withQuery(path, query), { signal });
}

/** POST of JSON. */
export function post(path, content, signal) {
  const headers = { 'content-type': 'application/json' };
  return call(path, { method: 'POST', body: JSON.stringify(content), headers, signal });
}

function withQuery(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== '' && value != null && value !== false);
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

async function call(path, request) {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  const signal = request.signal ? AbortSignal.any([request.signal, timeout]) : timeout;
  const response = await send(path, { ...request, signal });
  try {
    return await response.json();
  } catch (error) {
    throw unreachable(error);
  }
}

async function send(path, request) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...request.headers, ...(token !== null && { authorization: `Bearer ${token}` }) };
  let response;
  try {
    response = await fetch(path, { ...request, headers, cache: 'no-store', credentials: 'omit' });
  } catch (error) {
    throw unreachable(error);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

function unreachable(error) {
  if (error.name === 'AbortError') return error;
  if (error.name === 'TimeoutError') return new ApiError(0, 'The gateway did not answer in time.');
  return new ApiError(0, 'The gateway cannot be reached.');
}

async function refusal(response) {
  const problem = await response.json().catch(() => ({}));
  const message = problem.detail ?? `The gateway answered with status ${response.status}.`;
  const error = new ApiError(response.status, message, problem);
  if (response.status === 401) session.dispatchEvent(new CustomEvent('unauthorized', { detail: error }));
  return error;
}

/**
 * Reads server-sent events until the stream ends. `onEvent` gets the event's name and its parsed data, `onOpen` is
 * called once the gateway has accepted. Fails if nothing comes for 25 s.
 */
export async function stream(path, query, { onOpen, onEvent, signal }) {
  const silence = new AbortController();
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(new DOMException('', 'TimeoutError')), SILENCE_MS_MAX);
  };
  heard();
  try {
    const response = await send(withQuery(path, query), {
      headers: { accept: 'text/event-stream' },
      signal: AbortSignal.any([signal, silence.signal]),
    });
    onOpen?.();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parse = eventParser(onEvent);
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      heard();
      parse(part.value);
    }
  } catch (error) {
    throw error instanceof ApiError ? error : unreachable(error);
  } finally {
    clearTimeout(timer);
  }
}

/** Cuts text into events as it arrives: https://html.spec.whatwg.org/multipage/server-sent-events.html */
export function eventParser(onEvent) {
  let rest = '';
  return (text) => {
    rest = (rest + text).replace(/\r\n/g, '\n');
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    if (rest.length > EVENT_CHARS_MAX) throw new ApiError(0, 'The gateway sent an event that is too long.');
    for (const block of blocks) {
      const lines = block.split('\n');
      const data = valuesOf(lines, 'data');
      if (data.length > 0) onEvent(valuesOf(lines, 'event').at(-1) ?? 'message', JSON.parse(data.join('\n')));
    }
  };
}

function valuesOf(lines, name) {
  return lines
    .filter((line) => line.startsWith(`${name}:`))
    .map((line) => line.slice(name.length + 1).replace(/^ /, ''));
}
