// Asks for the token that the admin port wants.

import { get, hasToken, setToken } from './api.js';
import { field, h } from './dom.js';

/** Shows the form in place of a view; `done` is called once the gateway has accepted a token. */
export function askForToken(root, done) {
  const rejected = hasToken();
  const token = h('input', {
    id: 'token',
    type: 'password',
    autocomplete: 'current-password',
    required: true,
    // The characters that a header can carry.
    pattern: '\\s*[\\x21-\\x7e]+\\s*',
    title: 'A token has no spaces and no characters beyond ASCII.',
    'aria-describedby': 'token-hint token-problem',
  });
  const user = h('input', {
    type: 'text',
    autocomplete: 'username',
    value: 'tollgate admin',
    hidden: true,
    'aria-hidden': 'true',
  });
  const problem = h('p', { class: 'problem-text', id: 'token-problem', role: 'alert' });
  const button = h('button', { type: 'submit', class: 'primary' }, 'Continue');
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    setToken(token.value.trim());
    try {
      await get('api/reload');
      done();
    } catch (error) {
      if (error.status === 401) setToken(null);
      problem.textContent = error.message;
      token.select();
    } finally {
      button.disabled = false;
    }
  };
  setToken(null);
  root.replaceChildren(
    h(
      'form',
      { class: 'token', onsubmit: submit },
      h('h1', { tabindex: -1 }, 'This gateway wants its admin token'),
      user,
      field('Token', token),
      h(
        'p',
        { class: 'hint', id: 'token-hint' },
        'The value of [admin] token. It stays in this tab and is forgotten with it.',
      ),
      problem,
      button,
    ),
  );
  if (rejected) problem.textContent = 'The token that this tab has is not the right one.';
  token.focus();
}
