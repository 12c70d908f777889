export function lexer(source: string, options?: object): any[];
export class Lexer {
  constructor(options?: object);
  lex(source: string): any[];
}
